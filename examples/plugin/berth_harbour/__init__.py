"""Two plugins for Berth: `Convoy` lets pods set sail together, `AskFirst` asks a service before a pod is bound."""
