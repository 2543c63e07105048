// Reads the text strings of CBOR: UTF-8 with a length prefix (RFC 8949 §3.1).

import { notUtf8, wrongItem } from './faults.ts'
import { endOfString, head, Major, readHead } from './head.ts'
import { buffer, bytes, view } from './input.ts'

/** For the text read last: the index after it (set by `readText`), and the bits of Known that apply to it. */
export const found = { next: 0, known: 0 }

/** Known properties of a text, which need no second check: it has no NUL; it is a name or the start of one. */
export const Known = { plain: 1, name: 2 } as const
const namePattern = /^[A-Za-z0-9][A-Za-z0-9\-:./_]*$/

/**
 * Cache of texts by a hash of their bytes: names and units repeat, and a cached one needs no new string. It holds two texts per
 * hash, and only short ones: at most about 600 kB per thread, whatever devices send.
 */
const slots = 4096
const slotWords = 16
export const knownBytesMax = 4 * slotWords
const knownTexts: string[] = Array.from({ length: slots }, () => '')
/** The bytes of each text in words of four, the last one padded with zeros; at least two words. */
const knownWords = new Int32Array(slots * slotWords)
/** The bits of Known of each text, which was checked when it was added. */
const knownAs = new Uint8Array(slots)
const knownLengths = new Uint8Array(slots)
/** Which of the two slots of a hash takes the next new text, alternating. */
let turn = 0

/** The bytes of a last word that belong to a text, by its length modulo 4. */
const lastWordMasks = Int32Array.of(-1, 0xff, 0xffff, 0xffffff)
/** The bytes of the first two words that belong to a text, by its length up to 8. */
const firstWordMasks = Int32Array.of(0, 0xff, 0xffff, 0xffffff, -1, -1, -1, -1, -1)
const secondWordMasks = Int32Array.of(0, 0, 0, 0, 0, 0xff, 0xffff, 0xffffff, -1)

/** 2^32 divided by the golden ratio: multiplying by it spreads values (Knuth, volume 3, §6.4). */
const hashFactor = 0x9e3779b1 | 0

/**
 * Reads the text at `at`, with any encoding of its length.
 *
 * @param label the bit of its label, for the error
 * @throws DecodeError if there is no text string, or it is cut off or not UTF-8
 */
export function readText(at: number, label: number, record: number): string {
  const start = readHead(at, record)
  found.known = 0
  if (head.major !== Major.text) throw wrongItem(label, 'a text string', bytes[at]!, record)
  const end = endOfString(start, record)
  found.next = end
  return end - start > knownBytesMax ? textAt(start, end, record) : shortTextAt(start, end - start, record)
}

/** The texts of one ASCII character, as many units are, with their bits of Known, so that no lookup is needed. */
const letters: readonly string[] = Array.from({ length: 0x80 }, (_, code) => String.fromCharCode(code))
const knownLetters = Uint8Array.from(letters, knownOf)

/** The text of `length` bytes, at most `knownBytesMax`, from `start` on, which must be inside the payload. @throws DecodeError */
export function shortTextAt(start: number, length: number, record: number): string {
  if (length === 1 && bytes[start]! < 0x80) {
    found.known = knownLetters[bytes[start]!]!
    return letters[bytes[start]!]!
  }
  if (length <= 8) return tinyTextAt(start, length, record)
  const lastWord = (length - 1) >> 2
  const last = view.getInt32(start + 4 * lastWord, true) & lastWordMasks[length & 3]!
  let hash = length
  for (let word = 0; word < lastWord; word++) hash = Math.imul(hash ^ view.getInt32(start + 4 * word, true), hashFactor)
  hash = Math.imul(hash ^ last, hashFactor)
  const slot = (hash ^ (hash >>> 15)) & (slots - 2)
  if (isKnown(slot, start, length, lastWord, last)) return recall(slot)
  if (isKnown(slot + 1, start, length, lastWord, last)) return recall(slot + 1)
  return learn(slot, start, length, record)
}

/** The same for at most 8 bytes, which most texts have: two words without a loop, whose end the CPU would often mispredict. */
function tinyTextAt(start: number, length: number, record: number): string {
  const first = view.getInt32(start, true) & firstWordMasks[length]!
  const second = view.getInt32(start + 4, true) & secondWordMasks[length]!
  const hash = Math.imul(Math.imul(first ^ length, hashFactor) ^ second, hashFactor)
  const slot = (hash ^ (hash >>> 15)) & (slots - 2)
  const known = slot * slotWords
  if (knownWords[known] === first && knownWords[known + 1] === second && knownLengths[slot] === length) return recall(slot)
  const other = known + slotWords
  if (knownWords[other] === first && knownWords[other + 1] === second && knownLengths[slot + 1] === length) return recall(slot + 1)
  return learn(slot, start, length, record)
}

function isKnown(slot: number, start: number, length: number, lastWord: number, last: number): boolean {
  const known = slot * slotWords
  if (knownLengths[slot] !== length || knownWords[known + lastWord] !== last) return false
  for (let word = 0; word < lastWord; word++) if (view.getInt32(start + 4 * word, true) !== knownWords[known + word]) return false
  return true
}

function learn(hashSlot: number, start: number, length: number, record: number): string {
  const text = textAt(start, start + length, record)
  turn ^= 1
  const slot = hashSlot + turn
  const known = slot * slotWords
  for (let word = 0; word <= Math.max(1, (length - 1) >> 2); word++) {
    const left = Math.min(Math.max(length - 4 * word, 0), 4)
    knownWords[known + word] = view.getInt32(start + 4 * word, true) & firstWordMasks[left]!
  }
  knownLengths[slot] = length
  knownTexts[slot] = text
  knownAs[slot] = knownOf(text)
  return recall(slot)
}

function knownOf(text: string): number {
  return (text.includes('\0') ? 0 : Known.plain) | (namePattern.test(text) ? Known.name : 0)
}

function recall(slot: number): string {
  found.known = knownAs[slot]!
  return knownTexts[slot]!
}

/**
 * Decodes bytes as text; a byte-order mark is kept. Buffer replaces invalid bytes, so
 * they are checked first: together that takes half as long as a strict TextDecoder.
 *
 * @throws DecodeError if they are not UTF-8
 */
export function textAt(start: number, end: number, record: number): string {
  if (!isUtf8(start, end)) throw notUtf8(record)
  return buffer.toString('utf8', start, end)
}

/** Whether the bytes are UTF-8, without creating a string (RFC 3629 §4). */
export function isUtf8(start: number, end: number): boolean {
  let at = start
  while (at < end) {
    if (at + 4 <= end && (view.getInt32(at) & 0x80808080) === 0) {
      at += 4
      continue
    }
    const lead = bytes[at++]!
    if (lead < 0x80) continue
    if (lead < 0xc2 || lead > 0xf4) return false
    const more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3
    if (end - at < more) return false
    // The second byte shows an overlong form, a surrogate, or a code point beyond the last one.
    const second = bytes[at]!
    const least = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80
    const most = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf
    if (second < least || second > most) return false
    for (let rest = 1; rest < more; rest++) if ((bytes[at + rest]! & 0xc0) !== 0x80) return false
    at += more
  }
  return true
}
