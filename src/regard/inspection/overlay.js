/* Attention over an image, as `overlay.py` draws it: pale greys below, one hue on them. */
const overlay = (frame) => {
  const { R, theme } = frame, F = R.scene;
  let width = 0, height = 0, luminance = null;
  const plain = document.createElement("canvas");
  async function open() {
    if (luminance) return;
    const image = new Image();
    image.src = F.png;
    await image.decode();
    plain.width = width = image.naturalWidth; plain.height = height = image.naturalHeight;
    const context = plain.getContext("2d");
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, width, height).data;
    luminance = Float32Array.from({ length: width * height }, (_, i) => (0.299 * pixels[4 * i] + 0.587 * pixels[4 * i + 1] + 0.114 * pixels[4 * i + 2]) / 255);
  }
  /* where a pixel lies among n cells of a side: the cell itself, or two cells and how far it is between them */
  const between = (n, size) => Array.from({ length: size }, (_, i) => {
    const at = Math.max(0, Math.min(n - 1, ((i + 0.5) * n) / size - 0.5)), low = Math.floor(at);
    return F.smooth ? [low, Math.min(n - 1, low + 1), at - low] : [Math.floor((i * n) / size), 0, 0];
  });
  function draw(canvas, weights, most, scale = 1) {
    const [rows, columns] = F.grid, w = Math.max(columns, Math.round(width * scale)), h = Math.max(rows, Math.round(height * scale));
    canvas.width = w; canvas.height = h;
    const context = canvas.getContext("2d"), image = context.createImageData(w, h), ys = between(rows, h), xs = between(columns, w);
    const cell = (y, x) => weights[y * columns + x], [black, white] = F.greys[theme()], hue = F.hues[theme()];
    for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) {
      const [a, b, s] = ys[y], [c, d, t] = xs[x];
      const weight = F.smooth ? (1 - s) * ((1 - t) * cell(a, c) + t * cell(a, d)) + s * ((1 - t) * cell(b, c) + t * cell(b, d)) : cell(a, c);
      const from = Math.min(height - 1, Math.floor((y * height) / h)) * width + Math.min(width - 1, Math.floor((x * width) / w));
      const opacity = F.strength * Math.min(1, weight / most), grey = 255 * (black + (white - black) * luminance[from]), at = (y * w + x) * 4;
      for (let part = 0; part < 3; part++) image.data[at + part] = (1 - opacity) * grey + opacity * hue[part];
      image.data[at + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }
  function original(canvas) {
    canvas.width = width; canvas.height = height;
    canvas.getContext("2d").drawImage(plain, 0, 0);
  }
  const size = () => [width, height];
  const bar = (share) => {
    const [black, white] = F.greys[theme()], opacity = F.strength * share;
    return F.hues[theme()].map((part) => Math.round((1 - opacity) * 255 * (black + white) / 2 + opacity * part));
  };
  return { open, draw, original, size, bar };
};
