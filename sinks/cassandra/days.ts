// Which channel and which publisher have rows on which day: noted as rows are encoded, written before them, remembered once they are durable.
//
// In the steady state every row finds its day remembered, which costs a look-up a message and a comparison a row. A day here is the first of
// its bucket.

const dayMs = 86_400_000
/** Days so close to the end of what is kept are not remembered: another process, with another clock, may be about to delete them. */
const marginDays = 3

/** A row of sluice_publisher_days, and with it one of sluice_channel_days, that may not be there yet. `day` counts from 1970-01-01. */
export interface NotedDay {
  readonly channel: string
  readonly publisher: string
  readonly format: string
  readonly day: number
}

/** The days of one publisher in one channel and format. */
export class DaysOfPublisher {
  readonly channel: string
  readonly publisher: string
  readonly format: string
  /** Days in the tables for certain. */
  readonly written = new Set<number>()
  /** One of them, the one met last: rows come in order of time. */
  latest = Number.NaN
  /** Days that the batch being encoded has noted. */
  noted = new Set<number>()
  notedIn: readonly NotedDay[] | undefined

  constructor(channel: string, publisher: string, format: string) {
    this.channel = channel
    this.publisher = publisher
    this.format = format
  }

  /** Notes a row's day in `days`, unless it is known to be in the tables or noted there already. */
  note(day: number, days: NotedDay[]): void {
    if (day === this.latest) return
    if (this.written.has(day)) {
      this.latest = day
      return
    }
    if (this.notedIn !== days) {
      this.notedIn = days
      this.noted = new Set()
    }
    if (this.noted.has(day)) return
    this.noted.add(day)
    days.push({ channel: this.channel, publisher: this.publisher, format: this.format, day })
  }
}

export interface Days {
  /** Before each batch: forgets all when the retention has moved on, since days may have been deleted. */
  begin(): void
  of(channel: string, publisher: string, format: string): DaysOfPublisher
  /** Says that these days are in the tables for certain. */
  remember(days: readonly NotedDay[]): void
  /** Forgets them all: the tables may be others than they were. Each is written once more when it is met again. */
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
  let remembered = 0
  let oldestDay = oldestKeptDay(now(), retentionDays)

  function forget(): void {
    formats.clear()
    remembered = 0
  }

  function of(channel: string, publisher: string, format: string): DaysOfPublisher {
    let channels = formats.get(format)
    if (channels === undefined) formats.set(format, (channels = new Map()))
    let publishers = channels.get(channel)
    if (publishers === undefined) channels.set(channel, (publishers = new Map()))
    let days = publishers.get(publisher)
    if (days === undefined) {
      // Counted too: a batch whose rows are never durable must not leave entries without bound.
      if (remembered++ >= rememberedMax) {
        forget()
        return of(channel, publisher, format)
      }
      publishers.set(publisher, (days = new DaysOfPublisher(channel, publisher, format)))
    }
    return days
  }

  return {
    begin() {
      const oldest = oldestKeptDay(now(), retentionDays)
      if (oldest === oldestDay) return
      oldestDay = oldest
      forget()
    },
    of,
    remember(days) {
      for (const { channel, publisher, format, day } of days) {
        if (day + bucketDays - 1 < oldestDay + marginDays) continue
        of(channel, publisher, format).written.add(day)
        remembered++
      }
    },
    forget,
  }
}
