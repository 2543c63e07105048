// One unresolved SenML record and the current base fields, filled by a decoder and read by `resolveRecord`.

import { ValueKind } from '../record-batch.ts'
import type { TimeBounds } from '../transformer.ts'

export { defaultTimeBounds, type TimeBounds } from '../transformer.ts'

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
 * The state of decoding: one object of fixed shape, reused for every pack. A decoder writes the fields of a record here
 * and passes the bits of the labels that were present to `resolveRecord`, so that a record allocates no object.
 * A field whose label was absent has a stale value of an earlier record.
 */
export interface Pack {
  readonly bounds: TimeBounds
  /** Time of receipt, which relative times are added to. */
  createdUs: number
  /** The time bounds as absolute times, limited to the range of exact integer microseconds. */
  timeMinUs: number
  timeMaxUs: number
  /** The current base fields; '', 0 or undefined until set. The decoder writes them, and they keep their value. */
  bn: string
  bt: number
  bu: string
  bv: number
  bs: number
  bver: number

  /** The fields of the current record. */
  n: string
  u: string
  v: number
  vs: string
  vb: boolean
  /** Must be a copy, not a view of the payload, because the batch keeps it. */
  vd: Uint8Array
  s: number
  t: number
  ut: number

  /**
   * Bits of the current record's labels whose texts the decoder has already checked: bn and n can start a name, the others
   * contain no NUL. A decoder without such checks leaves it 0.
   */
  known: number

  /** The labels of all records so far, as bits. */
  labels: number
  /** The version of the pack: its first record's bver, or the default. */
  version: number
  /** The base labels set so far, as bits. */
  inForce: number
  /** Whether the current base name is empty, or a valid start of a name. */
  baseNameSafe: boolean
  /** The time of the previous row, and whether all rows so far are in chronological order. */
  lastTimeUs: number
  ordered: boolean
  /** The batch row at which the pack starts. */
  firstRow: number
  /** The row limit of the pack, where a row with data counts as three, and its number of rows with data. */
  rowsMax: number
  dataRows: number
  /** The length of the current base name and unit, the first row that uses them, and the characters repeated by earlier rows in total. */
  baseLength: number
  baseRow: number
  baseCharacters: number

  /**
   * Whether the first record's row is held back until the earlier ones are appended: it is often the newest, with the base time, and
   * the others count back from it. A decoder sets it after `beginPack` if there is more than one record.
   */
  firstWaits: boolean
  /** Whether a row is held back, and that row. */
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

/** Creates the state, which `beginPack` resets for each pack. Numbers start as NaN, so that V8 stores these fields as doubles. */
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
