// The keys of one map, so that none stands in it twice: by value, in the memory of their places alone, and in linear time.

import { head, Major, readHead } from './cbor-head.ts'
import { bytes } from './cbor-input.ts'

/** Up to here each key is compared with each: most maps are small. */
const pairwiseMax = 8

/** A prime below 2^31, and a secret multiplier that keeps products exact: nobody can choose keys that collide without knowing it. */
const prime = 2 ** 31 - 1
const multiplier = 2 ** 20 + Math.floor(Math.random() * 2 ** 20)

/** Places of keys: the beginning of each and its end. `count` of them. */
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

/** Begins a new map. What a large one needed is given back. */
export function clearKeys(keys: Keys): void {
  keys.count = 0
  if (keys.table.length === 0) return
  keys.table = noTable
  keys.starts = new Uint32Array(pairwiseMax)
  keys.ends = new Uint32Array(pairwiseMax)
}

/** Adds the key that stands in `[start, end)`. False where it is there already. */
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

/** The slot of the key, or the free one where it belongs. */
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

/** Where the bytes of a key begin that count beside its head: an argument may be written longer than it need be, so it is compared by value. */
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

/** A polynomial of the key's bytes at a secret place (Carter and Wegman 1979). */
function hashOf(start: number, end: number): number {
  const content = contentOf(start)
  let hash = head.major === Major.other ? Major.other : remainder(remainder(head.low * 8 + head.major) * multiplier + head.high)
  for (let at = content; at < end; at++) hash = remainder(hash * multiplier + bytes[at]!)
  return spread(hash)
}

/** Keys that differ in their last byte alone have hashes in a row; in a row of slots they would be long to search (the finalizer of MurmurHash3). */
function spread(hash: number): number {
  const half = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  const whole = Math.imul(half ^ (half >>> 13), 0xc2b2ae35)
  return whole ^ (whole >>> 16)
}

function remainder(number: number): number {
  return number - Math.floor(number / prime) * prime
}
