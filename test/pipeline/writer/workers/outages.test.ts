// An outage of one dependency that several workers meet is one outage in the log.

import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { openOutages } from '../../../../config/outage.ts'
import { openWorkerOutages, postedOutages } from '../../../../pipeline/writer/workers/outages.ts'
import { recordingLogger } from './recording-logger.ts'

test('two workers, one outage: it begins with the first report, ends with the last, and their messages are added up', async () => {
  const { logger, lines } = recordingLogger()
  const registry = new Registry()
  const main = openOutages(logger, registry, 'writer', { log: 'Kafka', store: 'PostgreSQL', dead_letters: 'the dead letters' })
  const workers = [openWorkerOutages(main), openWorkerOutages(main)]
  const posted: number[] = [0, 0]
  const stores = workers.map((worker, at) =>
    postedOutages({
      postMessage(message) {
        posted[at]!++
        worker.take(structuredClone(message))
      },
    }).report('store'),
  )
  const gauge = async () => (await registry.metrics()).match(/dependency="store"\} (\d)/)?.[1]
  stores[0]!.recovered(5)
  expect(posted).toEqual([0, 0])
  for (const store of [...stores, ...stores]) store.failed(new Error('terminated'), { waitMs: 100 })
  stores[0]!.recovered(30)
  stores[0]!.recovered(1)
  expect(await gauge()).toBe('1')
  stores[1]!.recovered(12)
  expect(await gauge()).toBe('0')
  expect(posted).toEqual([3, 3])
  expect(lines().map(({ msg }) => msg)).toEqual([
    'PostgreSQL is away (terminated), attempt 1, next in 0.1 s',
    'PostgreSQL is back after 0.0 s: 42 messages waited',
  ])
  for (const store of stores) store.failed(new Error('terminated'))
  stores[0]!.close()
  // Its thread has ended.
  workers[1]!.close()
  expect(await gauge()).toBe('0')
})
