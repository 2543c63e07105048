// Telegraf from the same topic into PostgreSQL, with the settings in telegraf.conf.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openServer } from '../../../database/server.ts'
import { telegrafBuild } from '../../../test/servers/install/telegraf.ts'
import type { Kafka } from '../../../test/servers/kafka.ts'
import { cpuSeconds, residentMbMax } from '../../process-figures.ts'
import type { Figures, Load } from './measure.ts'

/** When the table has not grown for so long, its rows are counted: counting more often would cost the server too much. */
const stillMs = 500
const firstRowMsMax = 60_000

/** Measures from its first stored rows to its last. */
export async function telegraf(kafka: Kafka, url: string, { topic, messages }: Load, group: string): Promise<Figures> {
  const missing = telegrafBuild.missing()
  if (missing !== undefined) throw new Error(missing)
  await telegrafBuild.install()
  const store = await openServer({ url, applicationName: 'benchmark', connectionsMax: 1 })
  const child = spawn(
    telegrafBuild.program(),
    ['--quiet', '--strict-env-handling', '--config', join(import.meta.dirname, 'telegraf.conf')],
    {
      env: { ...process.env, BROKER: kafka.brokers[0]!, TOPIC: topic, GROUP: group, POSTGRES: `${url}?sslmode=disable&pool_max_conns=4` },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  )
  let printed = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (printed = (printed + text).slice(-4000)))
  let exited = false
  const exit = once(child, 'exit').then(() => void (exited = true))
  const read = async (sql: string): Promise<number> => {
    if (exited) throw new Error(`Telegraf ended with code ${child.exitCode}:\n${printed}`)
    return (await store.query<{ found: number }>(sql))[0]!.found
  }
  const size = () => read(`SELECT coalesce(pg_relation_size(to_regclass('readings')), 0)::float8 AS found`)
  const count = () => read('SELECT count(*)::float8 AS found FROM readings')
  try {
    const beganMs = performance.now()
    while ((await size()) === 0) {
      if (performance.now() - beganMs > firstRowMsMax) throw new Error(`Telegraf stores nothing:\n${printed}`)
      await wait(20)
    }
    const first = await count()
    const startedMs = performance.now()
    const startedCpu = await cpuSeconds(child.pid!)
    let [grown, grownMs, cpu] = [0, startedMs, startedCpu]
    for (;;) {
      const now = await size()
      if (now > grown) [grown, grownMs, cpu] = [now, performance.now(), await cpuSeconds(child.pid!)]
      else if (performance.now() - grownMs > stillMs && (await count()) >= messages) break
      await wait(20)
    }
    const rows = await count()
    if (rows !== messages) console.log(`Telegraf stored ${rows} rows of ${messages} messages`)
    return {
      messagesPerSecond: ((messages - first) / (grownMs - startedMs)) * 1000,
      cpuUs: ((cpu - startedCpu) * 1e6) / (messages - first),
      rssMb: await residentMbMax(child.pid!),
    }
  } finally {
    child.kill('SIGTERM')
    await exit
    await store.close()
  }
}
