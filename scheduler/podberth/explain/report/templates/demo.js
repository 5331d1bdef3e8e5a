"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const last = data.steps.length - 1;
  const biggest = Math.max(1, ...data.nodes.map((node) => node.cpu));
  const apps = [...new Set(Object.values(data.pods).filter((pod) => pod.mine).map((pod) => pod.app))];
  const plugins = [...new Set(data.steps.flatMap((step) => Object.keys(step.verdict?.weights ?? {})))];
  const PLAY_MS = 1500;
  let at = -1;
  let chosen = null;
  let timer = 0;

  /* A text whose names may go on in the next line after any dash, and labels and taints after their signs. */
  const breakable = (text) => text.split(/(?<=\w-)(?=\d)|(?<=\w[=:])(?=\w)/).flatMap((part, i) => i ? [document.createElement("wbr"), part] : [part]);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      if (name === "style") Object.assign(element.style, value);
      else if (name.startsWith("--")) element.style.setProperty(name, value);
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flatMap((child) => typeof child === "string" ? breakable(child) : child ?? []));
    return element;
  };
  const cores = (milli) => String(Number((milli / 1000).toFixed(2)));
  const gibi = (bytes) => `${Number((bytes / 2 ** 30).toFixed(1))} Gi`;
  const colour = (app) => `var(--p${apps.indexOf(app) % 8})`;
  const shade = (plugin) => `var(--p${plugins.indexOf(plugin) % 8})`;

  /* Where every pod is, and which nodes are cordoned, after a step. */
  const stateAt = (index) => {
    const where = new Map();
    const cordoned = new Map(data.nodes.map((node) => [node.name, node.cordoned]));
    for (const step of data.steps.slice(0, index + 1)) {
      for (const [pod, node] of Object.entries(step.puts)) {
        if (node === null) where.delete(pod);
        else where.set(pod, node);
      }
      for (const [node, is] of Object.entries(step.cordons)) cordoned.set(node, is);
    }
    return { where, cordoned };
  };

  const chip = (name) => {
    const pod = data.pods[name];
    const on = name === (chosen ?? data.steps[at].pod);
    const what = `${name}, ${cores(pod.cpu)} cores, ${gibi(pod.memory)}${pod.mine ? "" : ", placed by another scheduler"}`;
    return make("button", {
      type: "button", class: `chip${on ? " on" : ""}${pod.mine ? "" : " foreign"}`, "data-pod": name, title: what,
      "aria-label": `${what}. Why is it there?`, "aria-pressed": String(on), "--c": pod.mine ? colour(pod.app) : "var(--others)",
      onclick: () => choose(name),
    }, name);
  };

  const nodeCard = (node, state, shown) => {
    const verdict = shown?.verdict;
    const reason = shown?.explanation?.nodes.find(([name]) => name === node.name)?.[1] ??
      (shown?.kind === "pending" && verdict ? verdict.refusals.filter((r) => r.node === node.name).map((r) => r.detail).join("; ") : "");
    const here = [...state.where].filter(([, on]) => on === node.name).map(([name]) => name);
    const used = here.reduce((sum, name) => sum + data.pods[name].cpu, 0);
    const out = verdict && verdict.refusals.find((refusal) => refusal.node === node.name);
    const badges = [];
    if (state.cordoned.get(node.name)) badges.push(make("span", { class: "badge warn" }, "cordoned"));
    if (node.taints.length) badges.push(make("span", { class: "badge warn", title: node.taints.join(", ") }, "tainted"));
    if (node.gpus) badges.push(make("span", { class: "badge" }, `${node.gpus} GPU`));
    for (const [key, value] of Object.entries(node.labels)) badges.push(make("span", { class: "badge", title: `${key}=${value}` }, value));
    const bar = make("div", { class: "bar", style: { width: `${(100 * node.cpu) / biggest}%` }, "aria-hidden": "true" });
    for (const name of here) {
      const pod = data.pods[name];
      bar.append(make("div", {
        class: `seg${pod.mine ? "" : " others"}`, title: `${name}: ${cores(pod.cpu)} cores`, onclick: () => choose(name),
        style: { width: `${(100 * pod.cpu) / node.cpu}%`, ...(pod.mine ? { background: colour(pod.app) } : {}) },
      }));
    }
    const best = verdict && verdict.node === node.name;
    return make("div", { class: `node${best ? " best" : ""}${out && !reason ? " out" : ""}`, title: out ? out.detail : null, role: "group",
      "aria-label": `Node ${node.name}: ${cores(used)} of ${cores(node.cpu)} cores asked for` },
      make("div", { class: "head" }, make("b", {}, node.name), ...badges, make("span", { class: "size" }, `${cores(used)} / ${cores(node.cpu)}`)),
      bar, make("div", { class: "chips" }, ...here.map(chip)), reason ? make("p", { class: "says" }, reason) : null);
  };

  const drawCluster = (state, shown) => {
    const zones = new Map();
    for (const node of data.nodes) {
      if (!zones.has(node.zone)) zones.set(node.zone, []);
      zones.get(node.zone).push(nodeCard(node, state, shown));
    }
    const boxes = [...zones].sort(([a], [b]) => (a < b ? -1 : 1)).map(([zone, nodes]) =>
      make("section", { class: "zone" }, make("h3", {}, zone ? `zone ${zone}` : "nodes"), ...nodes));
    byId("zones").replaceChildren(...boxes);
    const waiting = [...state.where].filter(([, on]) => on === "").map(([name]) => chip(name));
    byId("waiting").replaceChildren(...(waiting.length ? [make("span", { class: "lab" }, "Waiting for a node"), ...waiting] : []));
  };

  /* Pods that moved glide to their new place; new ones grow. */
  const animate = (draw) => {
    const before = new Map([...document.querySelectorAll(".chip")].map((c) => [c.dataset.pod, c.getBoundingClientRect()]));
    draw();
    if (calm || !before.size) return;
    for (const element of document.querySelectorAll(".chip")) {
      const old = before.get(element.dataset.pod);
      const now = element.getBoundingClientRect();
      const frames = old
        ? [{ transform: `translate(${old.x - now.x}px, ${old.y - now.y}px)` }, { transform: "none" }]
        : [{ transform: "scale(.4)", opacity: 0 }, { transform: "none", opacity: 1 }];
      if (!old || Math.abs(old.x - now.x) + Math.abs(old.y - now.y) > 1) element.animate(frames, { duration: 420, easing: "cubic-bezier(.2,.7,.2,1)" });
    }
  };

  const table = (head, rows) => make("div", { class: "scroll", tabindex: "0" }, make("table", {},
    make("thead", {}, make("tr", {}, ...head.map(([text, kind]) => make(text ? "th" : "td", text ? { scope: "col", class: kind } : {}, text)))),
    make("tbody", {}, ...rows)));

  const points = (verdict) => {
    const shown = verdict.candidates;
    const names = Object.keys(verdict.weights);
    const got = (candidate, name) => candidate.scores[name][1];
    const same = names.filter((name) => verdict.flat.includes(name));
    const deciding = names.filter((name) => !same.includes(name));
    const most = Math.max(1, ...shown.map((candidate) => deciding.reduce((sum, name) => sum + Math.max(0, got(candidate, name)), 0)));
    const race = make("div", { class: "race", role: "img", "aria-label": `Points: ${shown.map((c) => `${c.node} ${c.total}`).join(", ")}` });
    shown.forEach((candidate, i) => {
      const stack = make("div", { class: "stack" }, ...deciding.map((name) => make("i", {
        title: `${name}: ${got(candidate, name)}`, style: { width: `${(100 * Math.max(0, got(candidate, name))) / most}%`, background: shade(name) } })));
      race.append(make("span", { class: `who${i ? "" : " won"}` }, `${i ? "" : "✓ "}${candidate.node}`), stack, make("span", { class: `sum${i ? "" : " won"}` }, String(candidate.total)));
    });
    const legend = make("div", { class: "legend" }, ...deciding.map((name) => make("span", {}, make("i", { style: { background: shade(name) } }), name)));
    const shared = same.filter((name) => got(shown[0], name));
    const parts = [make("h3", {}, verdict.able > shown.length ? `The best ${shown.length} of ${verdict.able} nodes, in points` : "The nodes that could take it, in points"), race, legend];
    if (shared.length) parts.push(make("p", { class: "quiet" }, `Not drawn, since all got the same: ${shared.map((name) => `${name} ${got(shown[0], name)}`).join(", ")}.`));
    if (shown.length > 1) {
      const [winner, second] = shown;
      const lead = (name) => got(winner, name) - got(second, name);
      const rows = [...names].sort((a, b) => Math.abs(lead(b)) - Math.abs(lead(a))).map((name) => {
        const by = lead(name);
        return make("tr", {}, make("th", { scope: "row", title: name }, name), make("td", { class: "num" }, String(got(winner, name))), make("td", { class: "num" }, String(got(second, name))),
          make("td", { class: `num ${by > 0 ? "plus" : by < 0 ? "minus" : ""}` }, by > 0 ? `+${by}` : by < 0 ? `−${-by}` : "0"));
      });
      parts.push(make("h3", {}, "Winner and runner-up, plugin by plugin"), table([["", ""], [winner.node, "num"], [second.node, "num"], ["lead", "num"]], rows));
    }
    return parts;
  };

  const refusals = (verdict) => {
    if (!verdict.refusals.length) return [];
    const byNode = new Map();
    for (const refusal of verdict.refusals) byNode.set(refusal.node, [...(byNode.get(refusal.node) ?? []), refusal]);
    const rows = [...byNode].map(([node, found]) => make("tr", {}, make("th", { scope: "row" }, node),
      make("td", { title: found.map((r) => `${r.plugin}: ${r.reason}`).join("; ") }, found.map((r) => r.detail).join("; "))));
    return [make("h3", {}, "Nodes that could not, and why"), table([["node", ""], ["reason", ""]], rows)];
  };

  const explained = (found) => [
    make("h3", {}, found.remedies.length ? "Any of these would free it; each was tried" : "No change that was tried would free it"),
    make("ul", { class: "remedies" }, ...found.remedies.map(([text, goes], i) => make("li", { class: i === found.taken ? "taken" : null },
      i === found.taken ? make("em", {}, "the story takes this one") : null, text, " ", make("small", {}, `(then it fits on ${goes})`)))),
    make("h3", {}, "Node by node, the closest first"),
    table([["node", ""], ["what stands in the way", ""]], found.nodes.map(([node, text]) => make("tr", {}, make("th", { scope: "row" }, node), make("td", {}, text)))),
  ];

  /* The latest step so far that says something about this pod. */
  const stepOf = (pod) => {
    for (let i = at; i >= 0; i--) if (data.steps[i].pod === pod && (data.steps[i].verdict || data.steps[i].explanation)) return data.steps[i];
    for (let i = at; i >= 0; i--) if (data.steps[i].pod === pod) return data.steps[i];
    return null;
  };

  const drawWhy = (state) => {
    const name = chosen ?? data.steps[at].pod;
    const step = chosen ? stepOf(chosen) : data.steps[at];
    const parts = [];
    if (chosen) parts.push(make("button", { type: "button", class: "follow", onclick: () => choose(null) }, "Follow the story"));
    if (chosen && !data.pods[chosen].mine) {
      const pod = data.pods[chosen];
      parts.push(make("h2", {}, chosen), make("p", {}, `On ${state.where.get(chosen)}, placed there by another scheduler. It asks for ${cores(pod.cpu)} cores and ${gibi(pod.memory)}: Berth counts that as taken, and never moves it.`));
    } else {
      parts.push(make("h2", {}, step.title));
      const verdict = step.verdict;
      if (step.kind === "pending" && verdict) {
        parts.push(make("p", { class: "message" }, verdict.message), ...refusals(verdict));
      } else if (step.explanation) {
        parts.push(...explained(step.explanation));
      } else {
        parts.push(...step.lines.map((line) => make("p", {}, line)));
        if (verdict) {
          if (Object.keys(verdict.weights).length) parts.push(...points(verdict));
          parts.push(...refusals(verdict));
        }
      }
      if (verdict) parts.push(make("p", { class: "quiet" }, `Decided in ${verdict.took}, over all ${verdict.nodes} nodes, by the profile “${verdict.profile}”${verdict.attempts > 1 ? `, at attempt ${verdict.attempts}` : ""}.`));
      else if (!name) parts.push(make("p", { class: "quiet" }, "Press play, or use the arrow keys."));
    }
    document.body.classList.toggle("asked", chosen !== null);
    byId("why").replaceChildren(...parts);
    byId("why").scrollTop = 0;
  };

  const draw = () => {
    const step = data.steps[at];
    const act = data.acts[step.act];
    const state = stateAt(at);
    const shown = chosen ? stepOf(chosen) : step;
    byId("act").textContent = `Act ${step.act + 1} · ${act.title}`;
    byId("now").textContent = step.title;
    byId("text").textContent = act.text;
    drawCluster(state, shown);
    drawWhy(state);
    byId("scrub").value = at;
    byId("scrub").setAttribute("aria-valuetext", `Step ${at + 1} of ${last + 1}: ${step.title}`);
    byId("count").textContent = `${at + 1} of ${last + 1}`;
    for (const mark of byId("marks").children) mark.classList.toggle("on", Number(mark.dataset.act) === step.act);
    for (const item of document.querySelectorAll(".steps > li.at")) item.classList.remove("at");
    byId(`step-${at}`)?.classList.add("at");
  };

  const go = (index, gently = true) => {
    const to = Math.max(0, Math.min(last, index));
    if (to === at) return;
    at = to;
    chosen = null;
    if (gently) animate(draw);
    else draw();
    history.replaceState(null, "", `#step=${at + 1}`);
  };
  const choose = (pod) => {
    chosen = pod;
    stop();
    draw();
    const chip = [...document.querySelectorAll(".chip")].find((chip) => chip.dataset.pod === pod);
    chip?.focus({ preventScroll: true });
    chip?.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    byId("play").textContent = "▶";
    byId("play").setAttribute("aria-label", "Play");
    byId("play").setAttribute("aria-pressed", "false");
  };
  const play = () => {
    if (timer) return stop();
    if (at === last) go(0, false);
    timer = setInterval(() => (at === last ? stop() : go(at + 1)), PLAY_MS);
    byId("play").textContent = "❚❚";
    byId("play").setAttribute("aria-label", "Pause");
    byId("play").setAttribute("aria-pressed", "true");
  };

  byId("scrub").max = last;
  byId("scrub").addEventListener("input", (event) => { stop(); go(Number(event.target.value)); });
  byId("play").addEventListener("click", play);
  byId("back").addEventListener("click", () => { stop(); go(at - 1); });
  byId("next").addEventListener("click", () => { stop(); go(at + 1); });
  let left = "-20px"; /* of the mark before: no two of them touch, however few steps an act has */
  data.acts.forEach((act, i) => {
    const first = data.steps.findIndex((step) => step.act === i);
    if (first < 0) return;
    left = `max(${(100 * first) / Math.max(1, last)}%, ${left} + 20px)`;
    byId("marks").append(make("button", { type: "button", "data-act": String(i), style: { left },
      title: act.title, "aria-label": `Act ${i + 1}: ${act.title}`, onclick: () => { stop(); go(first); } }, String(i + 1)));
  });
  for (const jump of document.querySelectorAll(".jump")) jump.addEventListener("click", () => {
    stop();
    go(Number(jump.dataset.step), false);
    byId("show").scrollIntoView({ behavior: calm ? "auto" : "smooth" });
  });
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.id === "scrub") return;
    const moves = { ArrowRight: () => go(at + 1), ArrowLeft: () => go(at - 1), Home: () => go(0), End: () => go(last) };
    if (event.key === " " && event.target === document.body) { event.preventDefault(); play(); }
    else if (event.key === "Escape" && chosen) choose(null);
    else if (moves[event.key]) { event.preventDefault(); stop(); moves[event.key](); }
  });

  const theme = byId("theme");
  const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; label(); });
  label();
  for (const id of ["show", "player", "theme"]) byId(id).hidden = false;
  const wanted = /^#step=(\d+)$/.exec(location.hash);
  go(wanted ? Number(wanted[1]) - 1 : 0, false);
})();
