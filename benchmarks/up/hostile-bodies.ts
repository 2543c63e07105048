// How long a publisher of `./sluice up` waits while another client sends four JSON bodies of 1 MiB at the same time, to each route with a body; and how
// many passwords of one account can be tried in a minute. A separate process sends them.
//
// node benchmarks/up/hostile-bodies.ts [--root <another checkout>] [--rounds 5] [--guess-seconds 60]

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { hostileBodies } from '../../test/http/hostile-bodies.ts'
import { call, makeSite, publish } from '../../test/up/operator.ts'
import type * as UpPlatform from '../../test/up/platform.ts'
import { median } from '../median-time.ts'

const { values } = parseArgs({
  options: { root: { type: 'string' }, rounds: { type: 'string', default: '5' }, 'guess-seconds': { type: 'string', default: '60' } },
})

interface Order {
  readonly url: string
  readonly path: string
  readonly authorization?: string
  readonly body: string
  /** Parallel requests, repeated for one round or until the time is over. */
  readonly atOnce: number
  readonly rounds?: number
  readonly seconds?: number
}

/** Number of answers by status. */
type Statuses = Readonly<Record<string, number>>

async function send({ url, path, authorization, body, atOnce, rounds = Infinity, seconds = Infinity }: Order): Promise<Statuses> {
  const statuses: Record<string, number> = {}
  const endMs = performance.now() + seconds * 1000
  for (let round = 0; round < rounds && performance.now() < endMs; round++) {
    const one = async (): Promise<void> => {
      const { status } = await call(url, 'POST', path, { body, ...(authorization === undefined ? {} : { authorization }) })
      statuses[status] = (statuses[status] ?? 0) + 1
    }
    await Promise.all(Array.from({ length: atOnce }, one))
  }
  return statuses
}

/** In the senders' process: takes orders until the parent is gone. */
if (process.send !== undefined) {
  process.on('message', (order: Order) => void send(order).then(statuses => process.send!(statuses)))
} else {
  await measure()
}

async function measure(): Promise<void> {
  const root = values.root === undefined ? new URL('../..', import.meta.url) : new URL(`file://${values.root}/`)
  const { disposableFolder, startPlatform } = (await import(new URL('test/up/platform.ts', root).href)) as typeof UpPlatform
  await using folder = await disposableFolder()
  const platform = await startPlatform({ data: folder.path })
  const site = await makeSite(platform.url)
  const senders = fork(new URL(import.meta.url), { stdio: 'inherit' })

  async function ordered(order: Omit<Order, 'url'>): Promise<Statuses> {
    senders.send({ url: platform.url, ...order })
    const [statuses] = (await once(senders, 'message')) as [Statuses]
    return statuses
  }

  /** Publishes until the work is done; returns how long each publish waited. */
  async function waitsDuring(work: Promise<unknown>): Promise<number[]> {
    const waits: number[] = []
    const ending = new AbortController()
    void work.then(() => ending.abort())
    while (!ending.signal.aborted) {
      const startedMs = performance.now()
      const { status } = await publish(platform.url, site, [{ n: 'a', v: 1 }])
      if (status !== 202) throw new Error(`a publish was answered ${status}`)
      waits.push(performance.now() - startedMs)
      await wait(5)
    }
    return waits
  }

  await waitsDuring(wait(2000))
  const quiet = await waitsDuring(wait(5000))
  console.log(`quiet: median ${median(quiet).toFixed(1)} ms, worst ${Math.max(...quiet).toFixed(1)} ms`)
  const targets = [
    { path: '/tokens', signedIn: false },
    { path: '/users', signedIn: false },
    { path: '/things/bulk', signedIn: true },
    { path: '/channels/bulk', signedIn: true },
    { path: '/connect', signedIn: true },
  ]
  for (const { path, signedIn } of targets) {
    let worst = { wait: 0, title: '' }
    for (const { name, make } of hostileBodies) {
      for (const partsMax of [50_000, Infinity]) {
        const order = { path, body: make(2 ** 20, partsMax), atOnce: 4, rounds: Number(values.rounds) }
        let statuses: Statuses = {}
        const waits = await waitsDuring(
          ordered({ ...order, ...(signedIn ? { authorization: site.owner } : {}) }).then(answered => (statuses = answered)),
        )
        const title = `${name}${partsMax === Infinity ? ', all' : ''}, answered ${Object.keys(statuses).join(' ')}`
        if (Math.max(...waits) > worst.wait) worst = { wait: Math.max(...waits), title }
        if (name === 'objects')
          console.log(
            `${path.padEnd(15)} worst ${Math.max(...waits)
              .toFixed(0)
              .padStart(5)} ms: ${title}`,
          )
      }
    }
    console.log(`${path.padEnd(15)} worst ${worst.wait.toFixed(0).padStart(5)} ms of all shapes: ${worst.title}`)
  }

  const seconds = Number(values['guess-seconds'])
  const body = JSON.stringify({ email: 'guessed@sluice.example', password: 'not this one' })
  let guesses: Statuses = {}
  const during = await waitsDuring(ordered({ path: '/tokens', body, atOnce: 8, seconds }).then(answered => (guesses = answered)))
  console.log(
    `guesses in ${seconds} s: ${guesses['401'] ?? 0} checked, ${guesses['429'] ?? 0} refused; publishers waited ${Math.max(...during).toFixed(0)} ms`,
  )
  senders.kill()
  await platform.stop()
}
