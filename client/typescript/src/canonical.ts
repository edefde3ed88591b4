/** Whether the bytes of a message are in canonical form, and hold only known fields. */
import { type DescMessage, ScalarType } from "@bufbuild/protobuf";

const MOST_DEPTH = 20;

class Reader {
  at = 0;
  constructor(readonly bytes: Uint8Array) {}

  get done(): boolean {
    return this.at === this.bytes.length;
  }

  /** A varint in the fewest bytes; undefined if it is not one. */
  varint(): bigint | undefined {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) return undefined;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return (byte === 0 && shift > 0n) || value >= 1n << 64n ? undefined : value;
    }
    return undefined;
  }

  take(size: number): Uint8Array | undefined {
    if (size > this.bytes.length - this.at) return undefined;
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  block(): Uint8Array | undefined {
    const size = this.varint();
    return size === undefined || size > BigInt(this.bytes.length) ? undefined : this.take(Number(size));
  }
}

const [VARINT, FIXED64, BLOCK, FIXED32] = [0, 1, 2, 5];

function wireType(scalar: ScalarType): number {
  if (scalar === ScalarType.STRING || scalar === ScalarType.BYTES) return BLOCK;
  if (scalar === ScalarType.DOUBLE || scalar === ScalarType.FIXED64 || scalar === ScalarType.SFIXED64) return FIXED64;
  if (scalar === ScalarType.FLOAT || scalar === ScalarType.FIXED32 || scalar === ScalarType.SFIXED32) return FIXED32;
  return VARINT;
}

/** A byte-order mark at its start would be lost in decoding. */
function isText(bytes: Uint8Array): boolean {
  try {
    return !new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes).startsWith("\ufeff");
  } catch {
    return false;
  }
}

/** The bytes of one scalar, and whether they encode its default. */
function scalarIs(reader: Reader, scalar: ScalarType): "default" | "other" | undefined {
  const type = wireType(scalar);
  if (type === VARINT) {
    const value = reader.varint();
    const short = scalar === ScalarType.UINT32 || scalar === ScalarType.SINT32 || scalar === ScalarType.BOOL;
    const most = scalar === ScalarType.BOOL ? 1n : short ? 0xffffffffn : 0xffffffffffffffffn;
    if (value === undefined || value > most) return undefined;
    if (scalar === ScalarType.INT32 && value > 0x7fffffffn && value < 0xffffffff80000000n) return undefined;
    return value === 0n ? "default" : "other";
  }
  const bytes = type === BLOCK ? reader.block() : reader.take(type === FIXED64 ? 8 : 4);
  if (bytes && scalar === ScalarType.STRING && !isText(bytes)) return undefined;
  return bytes && (bytes.every((b) => b === 0) && (type !== BLOCK || !bytes.length) ? "default" : "other");
}

/** The messages in one field of another message's bytes. */
export function blocksOf(bytes: Uint8Array, field: number): Uint8Array[] {
  const reader = new Reader(bytes);
  const found: Uint8Array[] = [];
  while (!reader.done) {
    const tag = Number(reader.varint() ?? -1n);
    const type = tag & 7;
    const block = type === BLOCK ? reader.block() : type === FIXED64 ? reader.take(8) : undefined;
    if (tag < 0 || (type === VARINT ? reader.varint() === undefined : !block)) return found;
    if (block && type === BLOCK && tag >> 3 === field) found.push(block);
  }
  return found;
}

/**
 * Known fields only, by increasing number, none of which has its default; numbers and lengths in the
 * fewest bytes, repeated numbers packed.
 */
export function isCanonical(message: DescMessage, bytes: Uint8Array, depth = 0): boolean {
  const reader = new Reader(bytes);
  let before = 0;
  const oneofs = new Set<string>();
  while (!reader.done) {
    const tag = reader.varint();
    const field = message.fields.find((f) => BigInt(f.number) === (tag ?? 0n) >> 3n);
    if (tag === undefined || !field || depth > MOST_DEPTH) return false;
    const type = Number(tag & 7n);
    const many = field.fieldKind === "list";
    const kind = many ? field.listKind : field.fieldKind;
    if (kind === "map" || field.number < before) return false;
    const scalar = kind === "enum" ? ScalarType.INT32 : kind === "scalar" ? field.scalar! : undefined;
    const packed = many && scalar !== undefined && wireType(scalar) !== BLOCK;
    if (field.number === before && (!many || packed)) return false;
    before = field.number;
    if (field.oneof) {
      if (oneofs.has(field.oneof.name)) return false;
      oneofs.add(field.oneof.name);
    }
    if (scalar === undefined) {
      const inner = type === BLOCK ? reader.block() : undefined;
      if (!inner || !isCanonical(field.message!, inner, depth + 1)) return false;
    } else if (packed) {
      const block = type === BLOCK ? reader.block() : undefined;
      if (!block?.length) return false;
      const numbers = new Reader(block);
      while (!numbers.done) if (!scalarIs(numbers, scalar)) return false;
    } else {
      const found = type === wireType(scalar) ? scalarIs(reader, scalar) : undefined;
      const explicit = many || field.oneof !== undefined || field.presence === 1;
      if (!found || (found === "default" && !explicit)) return false;
    }
  }
  return true;
}
