// One SenML record as its wire format gave it, and the base fields in force: what a decoder fills and `resolveRecord` reads.

import { ValueKind } from '../record-batch.ts'
import type { TimeBounds } from '../time-bounds.ts'

export { defaultTimeBounds, type TimeBounds } from '../time-bounds.ts'

/** The labels of SenML as bits (RFC 8428 §4.1, §4.2). */
export const Label = {
  bn: 1 << 0,
  bt: 1 << 1,
  bu: 1 << 2,
  bv: 1 << 3,
  bs: 1 << 4,
  bver: 1 << 5,
  n: 1 << 6,
  u: 1 << 7,
  v: 1 << 8,
  vs: 1 << 9,
  vb: 1 << 10,
  vd: 1 << 11,
  s: 1 << 12,
  t: 1 << 13,
  ut: 1 << 14,
} as const

export const baseLabels = Label.bn | Label.bt | Label.bu | Label.bv | Label.bs | Label.bver
export const valueLabels = Label.v | Label.vs | Label.vb | Label.vd

/**
 * The state of a decode: one object of one shape, used again for every pack. A decoder writes the fields of a record here
 * and hands the bits of the labels that were present to `resolveRecord`; so a record costs no object of its own.
 * A field whose label was absent holds what an earlier record left there.
 */
export interface Pack {
  readonly bounds: TimeBounds
  /** When the message was received: what relative times count from. */
  createdUs: number
  /** The bounds as instants, cut to what an integer of microseconds can hold. */
  timeMinUs: number
  timeMaxUs: number
  /** The base fields in force; '', 0 or undefined until given. The decoder writes them, and they stay. */
  bn: string
  bt: number
  bu: string
  bv: number
  bs: number
  bver: number

  /** The fields of the record at hand. */
  n: string
  u: string
  v: number
  vs: string
  vb: boolean
  /** Must be bytes of its own, no view of the payload: the batch keeps it. */
  vd: Uint8Array
  s: number
  t: number
  ut: number

  /**
   * The labels of the record at hand whose texts the decoder knows to be right, as bits: bn and n that may begin a name, the others
   * without a NUL. A decoder that knows nothing leaves it 0.
   */
  known: number

  /** The labels of all records so far, as bits. */
  labels: number
  /** The version of the pack: its first record's bver, or the default. */
  version: number
  /** The base labels given so far, as bits. */
  inForce: number
  /** Whether the base name in force begins as a name may and holds only its characters, or is empty. */
  baseNameSafe: boolean
  /** The instant of the row before, and whether all rows so far came in the order of time. */
  lastTimeUs: number
  ordered: boolean
  /** The batch's row at which the pack begins. */
  firstRow: number
  /** How many rows the pack may have, a row with data counted as three, and how many rows with data it has. */
  rowsMax: number
  dataRows: number
  /** The characters of base name and unit in force, the row of the pack since which they are, and what rows before it repeat together. */
  baseLength: number
  baseRow: number
  baseCharacters: number

  /**
   * Whether the first record's row is to wait for those that come before it in time: it often is the newest, with the base time, and
   * the others count back from it. A decoder that knows of more than one record says so after `beginPack`.
   */
  firstWaits: boolean
  /** Whether there is a row that waits, and that row. */
  waiting: boolean
  waitingName: string
  waitingUnit: string | undefined
  waitingTimeUs: number
  waitingKind: ValueKind
  waitingNumber: number
  waitingContent: string | Uint8Array | undefined
  waitingSum: number
  waitingUpdateTime: number
}

/** Makes the state that `beginPack` clears for each pack. Its numbers begin as NaN, so that their fields are made for doubles. */
export function openPack(bounds: TimeBounds): Pack {
  return {
    bounds,
    createdUs: Number.NaN,
    timeMinUs: Number.NaN,
    timeMaxUs: Number.NaN,
    bn: '',
    bt: Number.NaN,
    bu: '',
    bv: Number.NaN,
    bs: Number.NaN,
    bver: Number.NaN,
    n: '',
    u: '',
    v: Number.NaN,
    vs: '',
    vb: false,
    vd: new Uint8Array(0),
    s: Number.NaN,
    t: Number.NaN,
    ut: Number.NaN,
    known: 0,
    labels: 0,
    version: Number.NaN,
    inForce: 0,
    baseNameSafe: true,
    lastTimeUs: Number.NaN,
    ordered: true,
    firstRow: 0,
    rowsMax: 0,
    dataRows: 0,
    baseLength: 0,
    baseRow: 0,
    baseCharacters: 0,
    firstWaits: false,
    waiting: false,
    waitingName: '',
    waitingUnit: undefined,
    waitingTimeUs: Number.NaN,
    waitingKind: ValueKind.none,
    waitingNumber: Number.NaN,
    waitingContent: undefined,
    waitingSum: Number.NaN,
    waitingUpdateTime: Number.NaN,
  }
}
