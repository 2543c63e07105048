// Which publisher has rows on which day: noted as rows are encoded, written in the batch's transaction, remembered once committed.
//
// In the steady state every row finds its day remembered, which costs two look-ups a message and a comparison a row.

import type { SqlValue, Transaction } from '../../config/postgres/database.ts'

const dayUs = 86_400_000_000

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
}

/** @param rememberedMax beyond it all is forgotten, and found in the table again */
export function openPublisherDays(rememberedMax = 200_000): PublisherDays {
  const formats = new Map<string, Map<string, Map<string, DaysOfPublisher>>>()
  let remembered = 0

  function of(channel: string, publisher: string, format: string): DaysOfPublisher {
    let channels = formats.get(format)
    if (channels === undefined) formats.set(format, (channels = new Map()))
    let publishers = channels.get(channel)
    if (publishers === undefined) channels.set(channel, (publishers = new Map()))
    let days = publishers.get(publisher)
    if (days === undefined) {
      // Counted too: a batch whose rows are never committed must not leave entries without bound.
      if (remembered++ >= rememberedMax) {
        formats.clear()
        remembered = 0
        return of(channel, publisher, format)
      }
      publishers.set(publisher, (days = new DaysOfPublisher(channel, publisher, format)))
    }
    return days
  }

  function remember(days: readonly PublisherDay[]): void {
    for (const { channel, publisher, format, day } of days) {
      of(channel, publisher, format).committed.add(day)
      remembered++
    }
  }

  return { of, remember }
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
