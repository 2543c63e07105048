// A platform that is killed under a publish load: every acknowledged message can be read exactly once afterwards.

import { expect, test } from 'vitest'
import { makeSite, publish, readUntil, type Site } from './operator.ts'
import { startedFolder, startPlatform } from './platform.ts'

const workers = 8

interface Load {
  /** Numbers with a 202. */
  readonly acknowledged: Set<number>
  /** Numbers that were sent; those without a 202 when the process died were in flight. */
  readonly sent: Set<number>
}

/** Publishes numbered records on several connections; `onAcknowledged` gets their number so far. Ends when the process is gone. */
async function publishUntilKilled(base: string, site: Site, first: number, onAcknowledged: (count: number) => void): Promise<Load> {
  const acknowledged = new Set<number>()
  const sent = new Set<number>()
  let next = first
  const worker = async (): Promise<void> => {
    for (;;) {
      const number = next++
      sent.add(number)
      let status: number
      try {
        status = (await publish(base, site, [{ n: 'count', v: number }])).status
      } catch (error) {
        if (error instanceof TypeError) return // the connection is closed, so there is no answer
        throw error
      }
      expect(status).toBe(202)
      acknowledged.add(number)
      onAcknowledged(acknowledged.size)
    }
  }
  await Promise.all(Array.from({ length: workers }, worker))
  return { acknowledged, sent }
}

test('messages acknowledged before SIGKILL can be read exactly once, repeatedly', async () => {
  await using folder = await startedFolder()
  let platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  const acknowledged = new Set<number>()
  const sent = new Set<number>()

  for (const killAfter of [200, 37, 350]) {
    const victim = platform
    const load = await publishUntilKilled(platform.url, site, sent.size, count => {
      if (count === killAfter) victim.process.kill('SIGKILL')
    })
    expect(load.acknowledged.size).toBeGreaterThanOrEqual(killAfter)
    for (const number of load.acknowledged) acknowledged.add(number)
    for (const number of load.sent) sent.add(number)

    platform = await startPlatform({ data: folder.path })
    // A message published now is last in the log: once it is stored, so are all others.
    const last = sent.size
    sent.add(last)
    expect((await publish(platform.url, site, [{ n: 'count', v: last }])).status).toBe(202)
    acknowledged.add(last)
    let numbers: number[]
    do {
      numbers = (await readUntil(platform.url, site, acknowledged.size)).map(record => Number(record.Value))
    } while (!numbers.includes(last))

    const missing = [...acknowledged].filter(number => !numbers.includes(number))
    const twice = numbers.filter((number, at) => numbers.indexOf(number) !== at)
    const unknown = numbers.filter(number => !sent.has(number))
    expect({ missing, twice, unknown }).toEqual({ missing: [], twice: [], unknown: [] })
  }
  expect(await platform.stop()).toBe(0)
})
