//go:build tools

// Package cli pins the module whose main package is the pulumi command line tool.
package cli

import _ "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
