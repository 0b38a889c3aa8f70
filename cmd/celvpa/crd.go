package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/celvpa/celvpa/crds"
)

func crdCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "crd",
		Short: "Print or write the CustomResourceDefinitions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manifests, err := crds.Manifests()
			if err != nil {
				return err
			}
			for _, name := range crds.Names(manifests) {
				if out == "" {
					fmt.Fprintf(cmd.OutOrStdout(), "%s", manifests[name])
					continue
				}
				if err := os.WriteFile(filepath.Join(out, name), manifests[name], 0o644); err != nil {
					return fmt.Errorf("writing the CRDs: %w", err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to write to; empty prints to standard output")
	return cmd
}
