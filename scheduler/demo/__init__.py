"""`berth demo`: a small cluster told as a story, scheduled by the real scheduler over real HTTP.

`run` sets the scene (an embedded API server, or a namespace of its own on a real cluster), `acts` tell the story
through `play`, `mirror` shows what the API server says happened and `witness` why the scheduler decided so. `live`,
`picture` and `tell` put it on a terminal, `scheduler.report.demo_page` on a page.
"""
