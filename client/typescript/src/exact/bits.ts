/** Fair bits, and uniform numbers of which only the leading bits are drawn. */

/** A stream of independent fair bits. */
export interface BitSource {
  /** The next `count` bits as an integer, the first bit drawn the most significant. */
  bits(count: number): bigint;
}

/** The generator of the browser or of Node. */
export const systemSource: BitSource = {
  bits(count: number): bigint {
    const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(count / 8)));
    let value = 0n;
    for (const byte of bytes) value = (value << 8n) | BigInt(byte);
    return value >> BigInt(8 * bytes.length - count);
  },
};

/** A uniform integer in [0, bound), exactly: draws again instead of folding. */
export function below(source: BitSource, bound: bigint): bigint {
  const count = (bound - 1n).toString(2).length;
  if (bound === 1n) return 0n;
  for (;;) {
    const value = source.bits(count);
    if (value < bound) return value;
  }
}

const FIRST = 128;
const MORE = 64;

/** A number uniform in (0, 1) that lies in [numerator, numerator + 1] / 2^count. */
export class LazyUniform {
  count = FIRST;
  numerator: bigint;
  readonly #source: BitSource;

  constructor(source: BitSource) {
    this.#source = source;
    this.numerator = source.bits(FIRST);
  }

  /** Draw more bits; the earlier ones stay as they are. */
  refine(): void {
    this.numerator = (this.numerator << BigInt(MORE)) | this.#source.bits(MORE);
    this.count += MORE;
  }
}
