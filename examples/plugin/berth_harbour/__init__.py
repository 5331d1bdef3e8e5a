"""Three plugins for Berth: `Convoy` lets pods set sail together, `AskFirst` asks a service before a pod is bound,
`LowCarbon` scores nodes by what a service has said.
"""
