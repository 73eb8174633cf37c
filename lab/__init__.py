"""The lab: the emulated site, the engine bootstrap, the plugin stand-ins. Never in the product."""
