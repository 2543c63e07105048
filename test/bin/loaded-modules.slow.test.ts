// What a start costs, counted in modules and cached modules instead of time: `npm run bench -- roles start` measures it.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { untilReady } from '../writer/process.ts'
import { openSite } from '../writer/site.ts'
import { sluice } from './command.ts'

/** The environment of a process that notes the modules it loads, and these by thread; 0 is the main thread. */
function noting() {
  const file = join(temporaryFolder(), 'loaded')
  writeFileSync(file, '')
  const preload = new URL('loaded-modules.ts', import.meta.url).href
  return {
    environment: { NODE_OPTIONS: `--import=${preload}`, TEST_LOADED: file },
    loaded: () => {
      const byThread = Map.groupBy(readFileSync(file, 'utf8').trimEnd().split('\n'), line => line.split(' ')[0]!)
      return new Map([...byThread].map(([thread, lines]) => [thread, lines.map(line => line.split(' ')[1]!)]))
    },
  }
}

const of = (urls: readonly string[], library: string): number => urls.filter(url => url.includes(`/node_modules/${library}/`)).length

test('a tool loads for --help neither the pipeline nor a library but commander', async () => {
  // Not `send` and `tail`, whose errors are those of the Kafka client.
  for (const tool of ['dlq ls', 'logs', 'verify', 'trace']) {
    const { environment, loaded } = noting()
    expect((await sluice([...tool.split(' '), '--help'], '', environment)).code).toBe(0)
    const urls = loaded().get('0')!
    expect(urls.length, tool).toBeLessThan(200)
    for (const library of ['typebox', 'undici', '@platformatic/kafka', 'fastify'])
      expect(of(urls, library), `${library} for ${tool}`).toBe(0)
  }
})

test('a second start reads what the first one stripped and compiled', async () => {
  const environment = { NODE_COMPILE_CACHE: temporaryFolder(), NODE_DEBUG_NATIVE: 'COMPILE_CACHE' }
  const notCached = async (): Promise<number> => {
    const { code, output, errors } = await sluice(['config', 'check', 'up'], '', environment)
    expect(code).toBe(0)
    return (output.toString() + errors).match(/reading cache from .*\.\.\. (?!success)/g)?.length ?? 0
  }
  expect(await notCached()).toBeGreaterThan(500)
  expect(await notCached()).toBe(0)
})

describeUnlessMissing('a writer', missingKafka() ?? missingPostgres(), () => {
  test('loads no schemas of options in its workers, and its pipeline in workers alone', async () => {
    const { environment, loaded } = noting()
    const site = await openSite({ partitions: [2], environment: { ...environment, SVC_WORKERS_COUNT: '2' } })
    onTestFinished(() => site.close())
    await untilReady(await site.start(0))
    const { 0: main, ...workers } = Object.fromEntries(loaded())
    expect(main!.length).toBeLessThan(1700)
    expect(main!.filter(url => /\/(sinks\/postgres\/sink|pipeline\/writer\/loop)\.ts$/.test(url))).toEqual([])
    expect(Object.keys(workers)).toHaveLength(2)
    for (const urls of Object.values(workers)) {
      expect(urls.length).toBeLessThan(1000)
      for (const library of ['typebox', 'fastify']) expect(of(urls, library), library).toBe(0)
    }
  })
})
