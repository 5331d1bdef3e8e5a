"""Where equal pods go that are placed one after the other, found without a decision for each of them.

`ahead` has the totals. Plugins that look at more than one node have a file each, named like the plugin's own: it says
what each placed pod changes for the others (`following`).
"""
