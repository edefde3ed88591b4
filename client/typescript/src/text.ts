/** Text for people to trust: one line of visible characters. */
import { ParameterError } from "./errors.js";

const MOST_MARKS = 4;
const HIDDEN = new Set(
  [..."\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\u{13441}\u{13442}\u{1d159}"].map(
    (c) => c.codePointAt(0)!,
  ),
);

function isHidden(point: number): boolean {
  return HIDDEN.has(point) || (point >= 0xfe00 && point < 0xfe0e) || (point >= 0xe0100 && point < 0xe01f0);
}

function isMark(c: string, point: number): boolean {
  return (
    point > 127 &&
    (/^[\p{Mn}\p{Me}]$/u.test(c) || (point >= 0x1161 && point < 0x1200) || (point >= 0xd7b0 && point < 0xd800))
  );
}

/** Refuse a text that is not one printable, visible line without spaces around it. */
export function plain(name: string, text: string, most: number): string {
  const characters = [...text];
  const sound =
    characters.length >= 1 &&
    characters.length <= most &&
    !text.startsWith(" ") &&
    !text.endsWith(" ") &&
    characters.every((c) => c === " " || !/^[\p{C}\p{Z}]$/u.test(c)) &&
    allSeen(characters);
  if (!sound) throw new ParameterError(name, text, `1 to ${most} visible characters on one line`);
  return text;
}

/** Refuse invalid or repeated languages, and too many; "": none is stated. */
export function requireLanguages(name: string, tags: readonly string[]): void {
  const sound = new Set(tags.map((tag) => tag.toLowerCase())).size === tags.length && tags.length <= 64;
  if (!sound || !tags.every((tag) => /^([a-z]{2,8}(-[a-z\d]{1,8}){0,4})?$/i.test(tag))) throw new ParameterError(name, tags, "at most 64 BCP 47 tags, distinct");
}

function allSeen(characters: readonly string[]): boolean {
  let marks = 0;
  let before = " ";
  for (const c of characters) {
    const point = c.codePointAt(0)!;
    if (isHidden(point)) return false;
    if (isMark(c, point)) {
      marks += 1;
      const style = point === 0xfe0e || point === 0xfe0f;
      if (before === " " || marks > MOST_MARKS || (style && !/^[\p{S}\p{P}\p{N}]$/u.test(before))) return false;
    } else {
      marks = 0;
    }
    before = c;
  }
  return true;
}
