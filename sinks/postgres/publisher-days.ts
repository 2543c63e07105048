// Which publisher has rows on which day: noted as rows are encoded, written in the batch's transaction, remembered once committed.
//
// In the steady state every row finds its day remembered, which costs two look-ups a message and a comparison a row.

import type { SqlValue, Transaction } from '../../config/postgres/database.ts'
import { oldestKept } from './retention.ts'

const dayUs = 86_400_000_000
const dayMs = 86_400_000

/** A row of sluice.publisher_days that may not be there yet. `day` counts from 1970-01-01. */
export interface PublisherDay {
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
  /** Days in the table for certain. */
  readonly committed = new Set<number>()
  /** One of them, the one met last: rows come in order of time. */
  latest = Number.NaN
  /** Days that the batch being encoded has noted. */
  noted = new Set<number>()
  notedIn: readonly PublisherDay[] | undefined

  constructor(channel: string, publisher: string, format: string) {
    this.channel = channel
    this.publisher = publisher
    this.format = format
  }

  /** Notes the day of a row in `days`, unless it is known to be in the table or noted there already. */
  note(timeUs: number, days: PublisherDay[]): void {
    const day = Math.floor(timeUs / dayUs)
    if (day === this.latest) return
    if (this.committed.has(day)) {
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

export interface PublisherDays {
  of(channel: string, publisher: string, format: string): DaysOfPublisher
  /** Says that these days are in the table for certain: their transaction has committed. */
  remember(days: readonly PublisherDay[]): void
  /** Forgets them all: the table may be another one than it was. Each is written once more when it is met again. */
  forget(): void
}

export interface PublisherDaysOptions {
  /** Beyond it all is forgotten, and found in the table again. */
  readonly rememberedMax?: number
  /** As of `maintain`. Days before the retention may be deleted at any time: they are not remembered but written with each batch that has them. */
  readonly retentionMonths?: number
  /** Milliseconds since 1970. */
  readonly now?: () => number
}

export function openPublisherDays({
  rememberedMax = 200_000,
  retentionMonths = 0,
  now = Date.now,
}: PublisherDaysOptions = {}): PublisherDays {
  const formats = new Map<string, Map<string, Map<string, DaysOfPublisher>>>()
  let remembered = 0
  let oldestDay = Number.NEGATIVE_INFINITY

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
      // Counted too: a batch whose rows are never committed must not leave entries without bound.
      if (remembered++ >= rememberedMax) {
        forget()
        return of(channel, publisher, format)
      }
      publishers.set(publisher, (days = new DaysOfPublisher(channel, publisher, format)))
    }
    return days
  }

  function remember(days: readonly PublisherDay[]): void {
    const oldest = retentionMonths === 0 ? Number.NEGATIVE_INFINITY : oldestKept(new Date(now()), retentionMonths).getTime() / dayMs
    if (oldest !== oldestDay) {
      forget()
      oldestDay = oldest
    }
    for (const { channel, publisher, format, day } of days) {
      if (day < oldest) continue
      of(channel, publisher, format).committed.add(day)
      remembered++
    }
  }

  return { of, remember, forget }
}

/**
 * Writes the days that are not there yet. A day may be written whose only rows the store refused: a reader then finds it empty.
 *
 * In one order for all writers, so that two that meet the same days wait for each other, and not both for ever.
 */
export async function writeDays(transaction: Transaction, noted: readonly PublisherDay[]): Promise<void> {
  for (const { sql, values } of daysStep(noted)) await transaction.query(sql, values)
}

/** The same as a statement to come; none where there is nothing to write. */
export function daysStep(noted: readonly PublisherDay[]): { sql: string; values: SqlValue[] }[] {
  // What holds a NUL, which PostgreSQL's text cannot, has no rows either: each of them was refused.
  const days = noted.filter(
    ({ channel, publisher, format }) => !channel.includes('\0') && !publisher.includes('\0') && !format.includes('\0'),
  )
  if (days.length === 0) return []
  const sql = `
    INSERT INTO sluice.publisher_days (channel, publisher, format, day)
    SELECT channel, publisher, format, '1970-01-01'::date + day
    FROM unnest($1::text[], $2::text[], $3::text[], $4::int[]) AS days (channel, publisher, format, day)
    ORDER BY channel, publisher, format, day
    ON CONFLICT DO NOTHING`
  const values = [days.map(day => day.channel), days.map(day => day.publisher), days.map(day => day.format), days.map(day => day.day)]
  return [{ sql, values }]
}
