from tests.engine.fixtures import engine, session_engine

__all__ = ["engine", "session_engine"]
