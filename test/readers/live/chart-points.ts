// Points for charts: 10,000 a second, in ten packs of ten series.

import { setTimeout as wait } from 'node:timers/promises'
import { expectStatus, publish, type Site } from '../../up/operator.ts'

const packsEachSecond = 10
const recordsOfPack = 1000
export const seriesCount = 10

/** Publishes at that speed, or as fast as the answers come. @returns how many points */
export async function sendPoints(url: string, site: Site, seconds: number): Promise<number> {
  const startMs = performance.now()
  for (let pack = 0; pack < seconds * packsEachSecond; pack++) {
    await wait(Math.max(0, startMs + (pack * 1000) / packsEachSecond - performance.now()))
    const now = Date.now() / 1000
    const records = Array.from({ length: recordsOfPack }, (_, at) => ({
      n: `sensor-${at % seriesCount}`,
      u: 'Cel',
      v: Math.sin(pack + at / 100),
      t: now - (recordsOfPack - at) / recordsOfPack / packsEachSecond,
    }))
    await expectStatus(publish(url, site, records), 202)
  }
  return seconds * packsEachSecond * recordsOfPack
}
