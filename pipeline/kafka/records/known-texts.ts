// Cache of the envelope's texts, which repeat from message to message: a cached one is found by its bytes and needs no new string.

import { isUtf8 } from 'node:buffer'
import { canonicalId } from '../../../transformers/uuid.ts'

/**
 * Cached texts by a hash of their bytes. It holds two texts per hash, and only short ones, so it takes at most about
 * 10 MB per thread whatever producers send. All bytes are compared, so a collision costs time but never gives a wrong text.
 */
const slots = 65_536
const slotWords = 16
export const knownBytesMax = 4 * slotWords
const texts: string[] = Array.from({ length: slots }, () => '')
/** The bytes of each text in words of four, the last one padded with zeros. */
const words = new Int32Array(slots * slotWords)
const lengths = new Uint8Array(slots)
/** Marks the length of an id. */
const idMark = 0x80
/** Which of the two slots of a hash takes the next new text, alternating. */
let turn = 0

/** The bytes of a last word that belong to a text, by its length modulo 4. */
const lastWordMasks = Int32Array.of(-1, 0xff, 0xffff, 0xffffff)

/** 2^32 divided by the golden ratio: multiplying by it spreads values (Knuth, volume 3, §6.4). */
const hashFactor = 0x9e3779b1 | 0
/** Mixes the upper bits, in which ids that end in digits differ, into the lower ones (MurmurHash3, fmix32). */
const mixFactor = 0x85ebca6b | 0

/** The previous text of a field, in the same bytes: most subtopics, protocols and content types repeat that of the previous message. */
export class RecentText {
  at = 0
  length = 0
  text = ''
}

/**
 * The text of `length` bytes from `start` on, which must be in range.
 *
 * @param bytes the same memory as `view`
 * @returns undefined if they are not UTF-8
 */
export function textAt(bytes: Buffer, view: DataView, start: number, length: number): string | undefined {
  return knownAt(bytes, view, start, length, 0)
}

/** The same for the id of a channel or a publisher, in its one form: the cache knows it apart from a text of the same bytes. */
export function idAt(bytes: Buffer, view: DataView, start: number, length: number): string | undefined {
  return knownAt(bytes, view, start, length, idMark)
}

function knownAt(bytes: Buffer, view: DataView, start: number, length: number, mark: number): string | undefined {
  if (length === 0) return ''
  // At the very end the last word would be out of range, so the cache is not used.
  if (length > knownBytesMax || start + length + 3 > view.byteLength) return decoded(bytes, start, length, mark)
  const lastWord = (length - 1) >> 2
  const last = view.getInt32(start + 4 * lastWord, true) & lastWordMasks[length & 3]!
  let hash = length
  for (let word = 0; word < lastWord; word++) hash = Math.imul(hash ^ view.getInt32(start + 4 * word, true), hashFactor)
  hash = Math.imul(hash ^ last, hashFactor)
  hash = Math.imul(hash ^ (hash >>> 16), mixFactor)
  const slot = (hash ^ (hash >>> 13)) & (slots - 2)
  if (isKnown(slot, view, start, length | mark, lastWord, last)) return texts[slot]
  if (isKnown(slot + 1, view, start, length | mark, lastWord, last)) return texts[slot + 1]
  return learn(slot, bytes, view, start, length, mark, lastWord, last)
}

function decoded(bytes: Buffer, start: number, length: number, mark: number): string | undefined {
  const text = textOf(bytes, start, start + length)
  return mark === 0 || text === undefined ? text : canonicalId(text)
}

/** The same for a field that usually repeats its previous text, which is compared first, without hashing. */
export function repeatedTextAt(bytes: Buffer, view: DataView, recent: RecentText, start: number, length: number): string | undefined {
  if (recent.length === length && isSame(bytes, view, recent.at, start, length)) return recent.text
  const text = textAt(bytes, view, start, length)
  if (text !== undefined) {
    recent.at = start
    recent.length = length
    recent.text = text
  }
  return text
}

function isSame(bytes: Buffer, view: DataView, left: number, right: number, length: number): boolean {
  let at = 0
  for (; at + 4 <= length; at += 4) if (view.getInt32(left + at, true) !== view.getInt32(right + at, true)) return false
  for (; at < length; at++) if (bytes[left + at] !== bytes[right + at]) return false
  return true
}

function isKnown(slot: number, view: DataView, start: number, markedLength: number, lastWord: number, last: number): boolean {
  const known = slot * slotWords
  if (lengths[slot] !== markedLength || words[known + lastWord] !== last) return false
  for (let word = 0; word < lastWord; word++) if (view.getInt32(start + 4 * word, true) !== words[known + word]) return false
  return true
}

function learn(
  hashSlot: number,
  bytes: Buffer,
  view: DataView,
  start: number,
  length: number,
  mark: number,
  lastWord: number,
  last: number,
): string | undefined {
  const text = decoded(bytes, start, length, mark)
  if (text === undefined) return undefined
  turn ^= 1
  const slot = hashSlot + turn
  const known = slot * slotWords
  for (let word = 0; word < lastWord; word++) words[known + word] = view.getInt32(start + 4 * word, true)
  words[known + lastWord] = last
  lengths[slot] = length | mark
  texts[slot] = text
  return text
}

/** Decodes bytes as text, keeping a byte-order mark. Undefined if they are not UTF-8. */
export function textOf(bytes: Buffer, start: number, end: number): string | undefined {
  let at = start
  while (at < end && bytes[at]! < 0x80) at++
  if (at === end) return bytes.toString('latin1', start, end)
  return isUtf8(bytes.subarray(at, end)) ? bytes.toString('utf8', start, end) : undefined
}
