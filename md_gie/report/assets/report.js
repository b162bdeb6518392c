"use strict";
// Draws the plots and the three-dimensional view of a report from the JSON in the page.

const data = JSON.parse(document.getElementById("data").textContent);
const buttons = [["toImage", "zoom2d", "pan2d", "autoScale2d"]];
const config = { responsive: true, displaylogo: false, modeBarButtons: buttons };

const drawn = Object.entries(data.figures).map(([name, figure]) =>
  Plotly.newPlot(`plot-${name}`, figure.data, figure.layout,
    name === "timing" ? { ...config, displayModeBar: false } : config));

// A unit sphere as triangles: an icosahedron whose faces are split `times` times.
function sphere(times) {
  const t = (1 + Math.sqrt(5)) / 2;
  let points = [[-1, t, 0], [1, t, 0], [-1, -t, 0], [1, -t, 0], [0, -1, t], [0, 1, t],
    [0, -1, -t], [0, 1, -t], [t, 0, -1], [t, 0, 1], [-t, 0, -1], [-t, 0, 1]];
  let faces = [[0, 11, 5], [0, 5, 1], [0, 1, 7], [0, 7, 10], [0, 10, 11], [1, 5, 9], [5, 11, 4],
    [11, 10, 2], [10, 7, 6], [7, 1, 8], [3, 9, 4], [3, 4, 2], [3, 2, 6], [3, 6, 8], [3, 8, 9],
    [4, 9, 5], [2, 4, 11], [6, 2, 10], [8, 6, 7], [9, 8, 1]];
  for (let round = 0; round < times; round++) {
    const middles = new Map();
    const middle = (a, b) => {
      const key = a < b ? `${a} ${b}` : `${b} ${a}`;
      if (!middles.has(key)) {
        middles.set(key, points.length);
        points.push(points[a].map((value, axis) => (value + points[b][axis]) / 2));
      }
      return middles.get(key);
    };
    faces = faces.flatMap(([a, b, c]) => {
      const ab = middle(a, b), bc = middle(b, c), ca = middle(c, a);
      return [[a, ab, ca], [b, bc, ab], [c, ca, bc], [ab, bc, ca]];
    });
  }
  return { points: points.map((p) => p.map((x) => x / Math.hypot(...p))), faces };
}

function emptyMesh(color, name) {
  return {
    type: "mesh3d", x: [], y: [], z: [], i: [], j: [], k: [], color, name, hoverinfo: "name",
    flatshading: false,
    lighting: { ambient: 0.82, diffuse: 0.6, specular: 0.3, roughness: 0.45, fresnel: 0.05 },
    lightposition: { x: 4000, y: -2000, z: 8000 },
  };
}

function add(mesh, points, faces) {
  const first = mesh.x.length;
  for (const [x, y, z] of points) { mesh.x.push(x); mesh.y.push(y); mesh.z.push(z); }
  for (const [a, b, c] of faces) { mesh.i.push(first + a); mesh.j.push(first + b); mesh.k.push(first + c); }
}

const SIDES = 8;
const TUBE = Array.from({ length: SIDES }, (_, side) => {
  const next = (side + 1) % SIDES;
  return [[side, next, side + SIDES], [next, next + SIDES, side + SIDES]];
}).flat();

function tube(mesh, from, to, radius) {
  const along = to.map((value, axis) => value - from[axis]);
  const length = Math.hypot(...along);
  if (length === 0) return;
  const w = along.map((value) => value / length);
  const help = Math.abs(w[0]) < 0.8 ? [1, 0, 0] : [0, 1, 0];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const raw = cross(w, help), size = Math.hypot(...raw);
  const u = raw.map((value) => value / size), v = cross(w, u);
  const points = [];
  for (const end of [from, to]) {
    for (let side = 0; side < SIDES; side++) {
      const angle = (2 * Math.PI * side) / SIDES;
      points.push(end.map((value, axis) => value + radius * (Math.cos(angle) * u[axis] + Math.sin(angle) * v[axis])));
    }
  }
  add(mesh, points, TUBE);
}

function cellLines(cell, periodic) {
  const x = [], y = [], z = [];
  const push = (p) => { x.push(p && p[0]); y.push(p && p[1]); z.push(p && p[2]); };
  const corner = (a, b, c) => [0, 1, 2].map((axis) => a * cell[0][axis] + b * cell[1][axis] + c * cell[2][axis]);
  const ends = periodic.map((is) => (is ? [0, 1] : [0]));
  for (const a of ends[0]) for (const b of ends[1]) for (const c of ends[2]) {
    const here = [a, b, c];
    here.forEach((value, axis) => {
      if (value === 0 && periodic[axis]) {
        const there = here.slice();
        there[axis] = 1;
        push(corner(...here)); push(corner(...there)); push(null);
      }
    });
  }
  return { type: "scatter3d", mode: "lines", x, y, z, line: { color: "#8a8f98", width: 2.5 }, hoverinfo: "skip" };
}

function dots(scene, frame, style) {
  const color = scene.symbols.map((symbol) => scene.colors[symbol]);
  const size = scene.symbols.map((symbol) => scene.radii[symbol] * (style === "filled" ? 14 : 7));
  const part = (axis) => frame.positions.filter((_, place) => place % 3 === axis);
  return [{ type: "scatter3d", mode: "markers", x: part(0), y: part(1), z: part(2), text: scene.symbols,
    hoverinfo: "text", marker: { color, size, line: { width: 0 }, opacity: 1 } }];
}

function atoms(scene, frame, style) {
  const count = scene.symbols.length;
  if (count > 4000) return dots(scene, frame, style);
  const ball = sphere(count <= 400 ? 2 : 1);
  const meshes = {};
  const at = (atom) => frame.positions.slice(3 * atom, 3 * atom + 3);
  scene.symbols.forEach((symbol, atom) => {
    meshes[symbol] ??= emptyMesh(scene.colors[symbol], symbol);
    const radius = scene.radii[symbol] * (style === "filled" ? 1.35 : 0.5);
    const centre = at(atom);
    add(meshes[symbol], ball.points.map((p) => p.map((x, axis) => centre[axis] + radius * x)), ball.faces);
  });
  if (style === "sticks") {
    for (let bond = 0; bond < frame.bonds.length; bond += 2) {
      const [a, b] = frame.bonds.slice(bond, bond + 2);
      const from = at(a), to = at(b), half = from.map((value, axis) => (value + to[axis]) / 2);
      tube(meshes[scene.symbols[a]], from, half, 0.11);
      tube(meshes[scene.symbols[b]], half, to, 0.11);
    }
  }
  return Object.values(meshes);
}

// The box that holds every frame, so that nothing jumps while frames are played.
function bounds(scene) {
  const low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
  const include = (value, axis) => {
    low[axis] = Math.min(low[axis], value - 0.8);
    high[axis] = Math.max(high[axis], value + 0.8);
  };
  for (const frame of scene.frames) {
    frame.positions.forEach((value, place) => include(value, place % 3));
    if (!scene.periodic.some(Boolean)) continue;
    const lines = cellLines(frame.cell, scene.periodic);
    [lines.x, lines.y, lines.z].forEach((values, axis) =>
      values.forEach((value) => { if (value !== null) include(value, axis); }));
  }
  return [low, high];
}

function hasWebGL() {
  try { return Boolean(document.createElement("canvas").getContext("webgl")); } catch { return false; }
}

function view(scene) {
  const place = document.getElementById("view");
  if (!hasWebGL()) {
    place.textContent = "This browser shows no WebGL, which the three-dimensional view needs.";
    place.style.height = "auto";
    return;
  }
  const slider = document.getElementById("frame"), style = document.getElementById("style");
  const play = document.getElementById("play"), time = document.getElementById("time");
  const [low, high] = bounds(scene);
  const extent = high.map((value, axis) => value - low[axis]);
  const size = Math.cbrt(extent[0] * extent[1] * extent[2]) / 1.4;
  const axis = (n) => ({ visible: false, showbackground: false, range: [low[n], high[n]] });
  const layout = {
    margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, paper_bgcolor: "rgba(0,0,0,0)", uirevision: "kept",
    scene: { xaxis: axis(0), yaxis: axis(1), zaxis: axis(2), aspectmode: "manual", dragmode: "orbit",
      aspectratio: { x: extent[0] / size, y: extent[1] / size, z: extent[2] / size },
      camera: { projection: { type: "orthographic" }, eye: { x: 1.06, y: -1.48, z: 0.54 } } },
  };
  const draw = () => {
    const frame = scene.frames[Number(slider.value)];
    const traces = atoms(scene, frame, style.value);
    if (scene.periodic.some(Boolean)) traces.push(cellLines(frame.cell, scene.periodic));
    time.textContent = `${frame.time_ps.toPrecision(5)} ps`;
    return Plotly.react(place, traces, layout, { ...config, displayModeBar: false });
  };
  let playing = false;
  const next = () => {
    if (!playing) return;
    slider.value = (Number(slider.value) + 1) % scene.frames.length;
    draw().then(() => setTimeout(next, 90));
  };
  play.addEventListener("click", () => {
    playing = !playing;
    play.textContent = playing ? "Pause" : "Play";
    next();
  });
  slider.addEventListener("input", draw);
  style.addEventListener("change", draw);
  play.hidden = slider.hidden = scene.frames.length < 2;
  slider.max = scene.frames.length - 1;
  slider.value = slider.max;
  return draw();
}

if (data.scene) drawn.push(view(data.scene));
// Tells whoever looks from outside that nothing is missing any more.
Promise.all(drawn).then((plots) => { document.documentElement.dataset.drawn = plots.length; });
