// The ordinal of a row among those of its message that have its series and its microsecond: the tag `nth`, without which they would be one.

import type { DocumentColumns, RecordColumns } from '../../transformers/record-batch.ts'

/** So many rows of one instant are compared with each other; more are counted by their series. */
const comparedMax = 12

/** Of records, which lie together by message and, in it, by time. To be asked for each in turn, from the first. */
export class RecordOrdinals {
  readonly #records: RecordColumns
  #message = -1
  #timeUs = Number.NaN
  #first = 0
  #counted: Map<string, number> | undefined

  constructor(records: RecordColumns) {
    this.#records = records
  }

  of(at: number): number {
    const { message, timeUs } = this.#records
    if (message[at] !== this.#message || timeUs[at] !== this.#timeUs) {
      this.#message = message[at]!
      this.#timeUs = timeUs[at]!
      this.#first = at
      this.#counted = undefined
      return 0
    }
    if (at - this.#first >= comparedMax) return this.#count(at)
    const { name, unit } = this.#records
    let nth = 0
    for (let before = this.#first; before < at; before++) {
      if (name[before] === name[at] && (unit[before] ?? '') === (unit[at] ?? '')) nth++
    }
    return nth
  }

  #count(at: number): number {
    const { name, unit } = this.#records
    let counted = this.#counted
    let from = at
    if (counted === undefined) {
      this.#counted = counted = new Map()
      from = this.#first
    }
    let nth = 0
    for (let row = from; row <= at; row++) {
      const series = `${unit[row] ?? ''}\0${name[row]!}`
      nth = counted.get(series) ?? 0
      counted.set(series, nth + 1)
    }
    return nth
  }
}

/** Of documents, whose instants come in any order. All of a message have one series. */
export class DocumentOrdinals {
  readonly #documents: DocumentColumns
  #message = -1
  #first = 0
  /** The latest instant so far, and how many have it; while they come in order nothing else has to be kept. */
  #latestUs = 0
  #latest = 0
  #counted: Map<number, number> | undefined

  constructor(documents: DocumentColumns) {
    this.#documents = documents
  }

  of(at: number): number {
    const { message, createdUs } = this.#documents
    const us = createdUs[at]!
    if (message[at] !== this.#message) {
      this.#message = message[at]!
      this.#first = at
      this.#latestUs = us
      this.#latest = 1
      this.#counted = undefined
      return 0
    }
    if (this.#counted === undefined && us > this.#latestUs) {
      this.#latestUs = us
      this.#latest = 1
      return 0
    }
    if (this.#counted === undefined && us === this.#latestUs) return this.#latest++
    return this.#count(at)
  }

  #count(at: number): number {
    const { createdUs } = this.#documents
    let counted = this.#counted
    let from = at
    if (counted === undefined) {
      this.#counted = counted = new Map()
      from = this.#first
    }
    let nth = 0
    for (let row = from; row <= at; row++) {
      nth = counted.get(createdUs[row]!) ?? 0
      counted.set(createdUs[row]!, nth + 1)
    }
    return nth
  }
}
