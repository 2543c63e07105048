// Which channel and which publisher have rows on which day: noted with each batch, written before its rows, remembered once they are durable.
//
// A batch keeps all of its days, each an object that all batches share. Which of them are to be written is decided when the batch is: what was
// known as it was encoded may have been deleted since, as one whose write fails is tried again for days. In the steady state a row costs two
// comparisons. A day here is the first of its bucket.

const dayMs = 86_400_000
/** Days so close to the end of what is kept are not remembered: another process, with another clock, may be about to delete them. */
const marginDays = 3

/** A row of sluice_publisher_days, and with it one of sluice_channel_days. `day` counts from 1970-01-01. */
export interface NotedDay {
  readonly channel: string
  readonly publisher: string
  readonly format: string
  readonly day: number
}

/** What is known of one. */
interface KnownDay extends NotedDay {
  /** The generation in which it was written; it is in the tables for certain while that lasts. */
  writtenIn: number
  /** The batch that has noted it last. */
  notedIn: number
}

interface State {
  /** Goes up when all is forgotten. */
  generation: number
  /** Of the batch that is being encoded. */
  batch: number
  /** Days, and publishers of channels, that are held. */
  held: number
}

/** The days of one publisher in one channel and format. */
export class DaysOfPublisher {
  readonly channel: string
  readonly publisher: string
  readonly format: string
  readonly #state: State
  readonly #known = new Map<number, KnownDay>()
  /** The one met last: rows come in order of time. */
  #latest: KnownDay | undefined

  constructor(channel: string, publisher: string, format: string, state: State) {
    this.channel = channel
    this.publisher = publisher
    this.format = format
    this.#state = state
  }

  /** Notes a row's day in `days`, the same for a whole batch, unless it is noted there already. */
  note(day: number, days: NotedDay[]): void {
    const latest = this.#latest
    const known = latest !== undefined && latest.day === day ? latest : this.#find(day)
    if (known.notedIn === this.#state.batch) return
    known.notedIn = this.#state.batch
    days.push(known)
  }

  #find(day: number): KnownDay {
    let known = this.#known.get(day)
    if (known === undefined) {
      const { channel, publisher, format } = this
      known = { channel, publisher, format, day, writtenIn: -1, notedIn: -1 }
      this.#known.set(day, known)
      this.#state.held++
    }
    this.#latest = known
    return known
  }
}

export interface Days {
  /** Before each batch is encoded. */
  begin(): void
  of(channel: string, publisher: string, format: string): DaysOfPublisher
  /** Those of these days, noted here, that may not be in the tables. */
  unwritten(days: readonly NotedDay[]): readonly NotedDay[]
  /** Says that these days, noted here, are in the tables for certain. */
  remember(days: readonly NotedDay[]): void
  /** Forgets them all: the tables may be others than they were. Each is written once more, also those of batches that are encoded already. */
  forget(): void
}

export interface DaysOptions {
  /** Beyond it all is forgotten, and written again. */
  readonly rememberedMax?: number
  /** As of `maintain`. */
  readonly retentionDays?: number
  readonly bucketDays?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

/** The first day of which something is kept: buckets that end before it are deleted. Minus infinity where all is kept. */
export function oldestKeptDay(nowMs: number, retentionDays: number): number {
  return retentionDays === 0 ? Number.NEGATIVE_INFINITY : Math.floor(nowMs / dayMs) - retentionDays
}

export function openDays({ rememberedMax = 200_000, retentionDays = 0, bucketDays = 1, now = Date.now }: DaysOptions = {}): Days {
  const formats = new Map<string, Map<string, Map<string, DaysOfPublisher>>>()
  const state: State = { generation: 0, batch: 0, held: 0 }
  let oldestDay = oldestKeptDay(now(), retentionDays)

  function forget(): void {
    formats.clear()
    state.held = 0
    state.generation++
  }

  /** When the retention has moved on days may have been deleted. */
  function forgetOld(): void {
    const oldest = oldestKeptDay(now(), retentionDays)
    if (oldest === oldestDay) return
    oldestDay = oldest
    forget()
  }

  return {
    begin() {
      state.batch++
      // Days of rows that are never durable are held too: they must not grow without bound.
      if (state.held > rememberedMax) forget()
      forgetOld()
    },
    of(channel, publisher, format) {
      let channels = formats.get(format)
      if (channels === undefined) formats.set(format, (channels = new Map()))
      let publishers = channels.get(channel)
      if (publishers === undefined) channels.set(channel, (publishers = new Map()))
      let days = publishers.get(publisher)
      if (days === undefined) {
        publishers.set(publisher, (days = new DaysOfPublisher(channel, publisher, format, state)))
        state.held++
      }
      return days
    },
    unwritten(days) {
      forgetOld()
      return days.filter(day => (day as KnownDay).writtenIn !== state.generation)
    },
    remember(days) {
      for (const day of days) {
        if (day.day + bucketDays - 1 >= oldestDay + marginDays) (day as KnownDay).writtenIn = state.generation
      }
    },
    forget,
  }
}
