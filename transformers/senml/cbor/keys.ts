// Detects duplicate keys of a map by value, in linear time, storing only the positions of the keys.

import { head, Major, readHead } from './head.ts'
import { bytes } from './input.ts'

/** Up to this many keys are compared pairwise: most maps are small. */
const pairwiseMax = 8

/** A prime below 2^31, and a secret multiplier that keeps products exact: without knowing it, a sender cannot choose colliding keys. */
const prime = 2 ** 31 - 1
const multiplier = 2 ** 20 + Math.floor(Math.random() * 2 ** 20)

/** Positions of `count` keys: start and end of each. */
export interface Keys {
  count: number
  starts: Uint32Array
  ends: Uint32Array
  /** Ordinals of keys plus one by their hash, in the first free slot; at most half full. Empty up to `pairwiseMax` keys. */
  table: Int32Array
}

const noTable = new Int32Array(0)

export function openKeys(): Keys {
  return { count: 0, starts: new Uint32Array(pairwiseMax), ends: new Uint32Array(pairwiseMax), table: noTable }
}

/** Begins a new map, and releases the memory of a large one. */
export function clearKeys(keys: Keys): void {
  keys.count = 0
  if (keys.table.length === 0) return
  keys.table = noTable
  keys.starts = new Uint32Array(pairwiseMax)
  keys.ends = new Uint32Array(pairwiseMax)
}

/** Adds the key at `[start, end)`. Returns false if it is a duplicate. */
export function addKey(keys: Keys, start: number, end: number): boolean {
  const { count } = keys
  if (count < pairwiseMax) {
    for (let other = 0; other < count; other++) if (sameKey(keys.starts[other]!, keys.ends[other]!, start, end)) return false
  } else {
    if (2 * count >= keys.table.length) growKeys(keys)
    const slot = slotOf(keys, start, end)
    if (keys.table[slot] !== 0) return false
    keys.table[slot] = count + 1
  }
  keys.starts[count] = start
  keys.ends[count] = end
  keys.count++
  return true
}

/** The slot of the key, or the free slot for it. */
function slotOf(keys: Keys, start: number, end: number): number {
  const mask = keys.table.length - 1
  let slot = hashOf(start, end) & mask
  for (;;) {
    const ordinal = keys.table[slot]!
    if (ordinal === 0 || sameKey(keys.starts[ordinal - 1]!, keys.ends[ordinal - 1]!, start, end)) return slot
    slot = (slot + 1) & mask
  }
}

function growKeys(keys: Keys): void {
  const size = Math.max(4 * pairwiseMax, 2 * keys.table.length)
  const starts = new Uint32Array(size / 2)
  const ends = new Uint32Array(size / 2)
  starts.set(keys.starts)
  ends.set(keys.ends)
  keys.starts = starts
  keys.ends = ends
  keys.table = new Int32Array(size)
  for (let ordinal = 0; ordinal < keys.count; ordinal++) {
    keys.table[slotOf(keys, starts[ordinal]!, ends[ordinal]!)] = ordinal + 1
  }
}

/** Index at which the key's content after its head starts. The argument of the head is compared by value, because it may not be in its shortest form. */
function contentOf(start: number): number {
  const next = readHead(start, undefined)
  return head.major === Major.other ? start : next
}

function sameKey(start: number, end: number, otherStart: number, otherEnd: number): boolean {
  const content = contentOf(start)
  const { major, high, low } = head
  const otherContent = contentOf(otherStart)
  if (head.major !== major || end - content !== otherEnd - otherContent) return false
  if (major !== Major.other && (head.high !== high || head.low !== low)) return false
  for (let at = content, other = otherContent; at < end; at++, other++) if (bytes[at] !== bytes[other]) return false
  return true
}

/** A polynomial of the key's bytes, evaluated at a secret point (Carter and Wegman 1979). */
function hashOf(start: number, end: number): number {
  const content = contentOf(start)
  let hash = head.major === Major.other ? Major.other : remainder(remainder(head.low * 8 + head.major) * multiplier + head.high)
  for (let at = content; at < end; at++) hash = remainder(hash * multiplier + bytes[at]!)
  return spread(hash)
}

/** Spreads hashes (the finalizer of MurmurHash3): keys that differ only in the last byte have consecutive hashes, and consecutive slots are slow to probe. */
function spread(hash: number): number {
  const half = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  const whole = Math.imul(half ^ (half >>> 13), 0xc2b2ae35)
  return whole ^ (whole >>> 16)
}

function remainder(number: number): number {
  return number - Math.floor(number / prime) * prime
}
