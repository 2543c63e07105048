// The end of every run: the load stops, the writers drain and stop, and then store, dead letters and `sluice verify` are checked.

import { type Counted, check } from './check.ts'
import type { Load } from './load.ts'
import type { Site } from './site.ts'

export interface Verdict {
  readonly counted: Counted
  /** Empty if no message is lost or duplicated. */
  readonly faults: readonly string[]
}

export async function verdict(site: Site, load: Load): Promise<Verdict> {
  const { store, kafka, topics, writers, unexpected } = site
  const faults: string[] = []
  await load.stop()
  const ends = await site.logEnds()
  if (!(await site.untilStored(ends))) {
    faults.push(`the writers did not drain: ${writers.map(writer => writer?.printed().slice(-2000)).join('\n')}`)
  }
  for (const place of writers.keys()) faults.push(...(await stopFault(site, place)))
  const rows = site.rows()
  const books = await store.books?.()
  const checked = await check({ load, rows, books, brokers: kafka.brokers, topics, writer: site.writer, ends })
  const verified = await site.verify()
  if (verified.code !== 0) faults.push(`sluice verify ended with ${verified.code}: ${verified.printed.slice(-3000)}`)
  return { counted: checked.counted, faults: [...faults, ...checked.faults, ...unexpected] }
}

/** Stops the writer in that place, if there is one; returns faults in how it ended. */
export async function stopFault(site: Site, place: number, signal: NodeJS.Signals = 'SIGTERM'): Promise<string[]> {
  const writer = site.writers[place]
  if (writer === undefined) return []
  const code = await site.stop(place, signal)
  if (code === (signal === 'SIGTERM' ? 0 : signal)) return []
  return [`writer ${place} was to stop by ${signal}, and ended with ${code}: ${writer.printed().slice(-3000)}`]
}
