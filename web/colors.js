// Colors for numbers. Lightness alone orders each scale, so that it reads the same to color-blind eyes and in gray.

const LIGHT = [[250, 249, 246], [207, 225, 230], [134, 184, 207], [63, 134, 180], [31, 85, 144], [16, 36, 84]];
const DARK = [[24, 27, 33], [23, 52, 82], [29, 95, 143], [63, 154, 192], [159, 211, 214], [247, 248, 217]];
// Signed numbers: orange is against, blue for; both ends differ from the middle by lightness too.
const SIGNED_LIGHT = [[122, 58, 4], [217, 128, 44], [250, 249, 246], [78, 148, 196], [16, 50, 104]];
const SIGNED_DARK = [[255, 190, 120], [176, 98, 30], [24, 27, 33], [50, 122, 170], [160, 216, 244]];

function table(stops) {
  const out = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; ++i) {
    const at = (i / 255) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), f = at - low;
    for (let c = 0; c < 3; ++c) out[3 * i + c] = stops[low][c] * (1 - f) + stops[low + 1][c] * f;
  }
  return out;
}

const tables = { light: table(LIGHT), dark: table(DARK), signedLight: table(SIGNED_LIGHT),
  signedDark: table(SIGNED_DARK) };

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

export function palette(signed = false) {
  return isDark() ? (signed ? tables.signedDark : tables.dark) : signed ? tables.signedLight : tables.light;
}

// A number from 0 to 1 (signed: −1 to 1) as an index into a palette.
export function shade(value, signed = false) {
  if (!signed) return Math.round(255 * Math.min(1, Math.max(0, value)));
  return Math.round(127.5 + 127.5 * Math.min(1, Math.max(-1, value)));
}

export function rgb(colors, index) {
  return `rgb(${colors[3 * index]},${colors[3 * index + 1]},${colors[3 * index + 2]})`;
}

// Ink that can be read on a color of the palette: of dark and white the one with more contrast (WCAG's formula).
export function inkOn(colors, index) {
  const [r, g, b] = [0, 1, 2].map((c) => {
    const v = colors[3 * index + c] / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b, dark = 0.0085;
  return (light + 0.05) / (dark + 0.05) > 1.05 / (light + 0.05) ? "#14171c" : "#ffffff";
}

// Bytes through a palette into an image of their size.
export function imageOf(bytes, width, height, signed = false) {
  const colors = palette(signed), image = new ImageData(width, height), data = image.data;
  for (let i = 0; i < bytes.length; ++i) {
    const c = 3 * bytes[i];
    data[4 * i] = colors[c], data[4 * i + 1] = colors[c + 1], data[4 * i + 2] = colors[c + 2], data[4 * i + 3] = 255;
  }
  return image;
}

export function canvasOf(bytes, width, height, signed = false) {
  const canvas = document.createElement("canvas");
  canvas.width = width, canvas.height = height;
  canvas.getContext("2d").putImageData(imageOf(bytes, width, height, signed), 0, 0);
  return canvas;
}
