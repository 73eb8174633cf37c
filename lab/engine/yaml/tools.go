//go:build tools

// Package yaml pins the module whose main package is Pulumi's language host for YAML.
package yaml

import _ "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml"
