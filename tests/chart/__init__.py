"""The Helm chart, through Helm itself: `build` makes Helm once per machine, `rendering` asks it."""
