package cli

import "github.com/spf13/cobra"

func newDiagnose() *cobra.Command { return &cobra.Command{Use: "diagnose"} }
