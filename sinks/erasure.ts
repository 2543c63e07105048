// The contract of an erasure, which deletes rows for good, and the note of it, by which `verify`, `trace` and replays know what was erased.

/** Which rows are erased: those that meet all given conditions, of which there is at least one. */
export interface ErasureFilter {
  /** As it is stored: a UUID in lower case. */
  readonly channel?: string
  /** As it is stored. */
  readonly publisher?: string
  /** Whole milliseconds since 1970: rows with an earlier time, which is `time` of records and `created` of documents. */
  readonly beforeMs?: number
}

/** What was erased, without its contents. */
export interface Erasure extends ErasureFilter {
  /** A UUID. */
  readonly id: string
  readonly startedMs: number
  /** Absent while it runs, and after it was killed: running it again goes on with it. */
  readonly endedMs?: number
  /** Without those that a killed run deleted. */
  readonly rows: number
  readonly deadLetters: number
  /** Which messages it may have taken rows of; empty until it has ended. Of logs that are not here it says nothing. */
  readonly logs: readonly ErasedLog[]
}

export interface ErasedLog {
  /** The log's number in the store. */
  readonly number: number
  /** The id of its topic: numbers of logs are used again. */
  readonly id: string
  /** By partition. */
  readonly partitions: Readonly<Record<string, ErasedOffsets>>
}

export interface ErasedOffsets {
  /** Messages below were stored before it began: no row of theirs that meets the conditions may be left. 0 if it failed. */
  readonly stored: number
  /** Messages below may have been stored before it ended: rows of theirs that meet the conditions may be missing. */
  readonly reached: number
}

/** Called after each step with the number of rows that it has deleted. */
export type OnErased = (rows: number) => Promise<void>

/**
 * Erases rows of one store. It may run beside any number of writers and readers.
 *
 * Only rows are deleted: SenML records and JSON documents of all logs and writers that meet the conditions. Positions, offsets, counts, notes of replays
 * and numbers of logs stay: they keep a writer or a replay from storing an erased message again, and hold no content. So do the names of channels,
 * publishers, series and formats that a store keeps beside its rows.
 *
 * Every method throws the errors of the store's driver.
 */
export interface StoreErasure {
  /** The rows that `erase` would delete, by format (`messages` for SenML), without formats that have none. May take as long as reading them. */
  count(filter: ErasureFilter, signal: AbortSignal): Promise<ReadonlyMap<string, number>>

  /**
   * Deletes every row that the store has at the time of the call and that meets the conditions; one that is written meanwhile may be deleted or stay.
   *
   * It deletes in steps of bounded size, none of which holds up a writer for long. What a step has deleted stays deleted if a later one fails or the
   * signal aborts; another call deletes the rest.
   *
   * @returns the number of rows deleted
   */
  erase(filter: ErasureFilter, signal: AbortSignal, onErased: OnErased): Promise<number>

  /** Adds the note of an erasure, or replaces the one with its id. `StoreAudit.erasures` reads it. */
  note(erasure: Erasure): Promise<void>

  close(): Promise<void>
}

/** By which times rows of one message are erased. */
export interface ErasedTimes {
  /** Microseconds since 1970: rows with an earlier time may be missing. */
  readonly missingBelowUs: number
  /** Rows with an earlier time must be missing. */
  readonly goneBelowUs: number
  /** The last one that reaches the message. */
  readonly erasure: Erasure
}

/** What was erased of one log. */
export interface ErasedMessages {
  /** Undefined for a message that no erasure reaches. */
  of(message: { readonly channel: string; readonly publisher: string }, partition: number, offset: number): ErasedTimes | undefined
}

/** @param log with its number in the store */
export function erasedMessages(erasures: readonly Erasure[], log: Pick<ErasedLog, 'number' | 'id'>): ErasedMessages {
  const byOrigin = Map.groupBy(erasures, ({ channel, publisher }) => originKey(channel, publisher))

  function ranges(erasure: Erasure, partition: number): ErasedOffsets {
    // It may have taken anything while it runs.
    if (erasure.endedMs === undefined) return { stored: 0, reached: Number.POSITIVE_INFINITY }
    const own = erasure.logs.find(({ number, id }) => number === log.number && id === log.id)
    return own?.partitions[String(partition)] ?? { stored: 0, reached: 0 }
  }

  return {
    of({ channel, publisher }, partition, offset) {
      if (byOrigin.size === 0) return undefined
      let times: ErasedTimes | undefined
      const origins = [originKey(channel, publisher), originKey(channel, undefined), originKey(undefined, publisher), originKey()]
      for (const erasure of origins.flatMap(key => byOrigin.get(key) ?? [])) {
        const { stored, reached } = ranges(erasure, partition)
        if (offset >= reached) continue
        const belowUs = erasure.beforeMs === undefined ? Number.POSITIVE_INFINITY : erasure.beforeMs * 1000
        const { missingBelowUs = Number.NEGATIVE_INFINITY, goneBelowUs = Number.NEGATIVE_INFINITY } = times ?? {}
        times = {
          missingBelowUs: Math.max(missingBelowUs, belowUs),
          goneBelowUs: offset < stored ? Math.max(goneBelowUs, belowUs) : goneBelowUs,
          erasure: times === undefined || times.erasure.startedMs < erasure.startedMs ? erasure : times.erasure,
        }
      }
      return times
    },
  }
}

/** No text of a device has a NUL. */
function originKey(channel = '\0', publisher = '\0'): string {
  return `${channel}\0${publisher}`
}

/** As stores keep it. */
export function erasureText(erasure: Erasure): string {
  return JSON.stringify(erasure)
}

/** @param texts of `erasureText`, in any order */
export function erasuresIn(texts: readonly string[]): Erasure[] {
  return texts.map(text => JSON.parse(text) as Erasure).sort((one, other) => one.startedMs - other.startedMs)
}
