// Faults of writers and their dependencies while messages flow: each kind strikes at a given moment, and ends later.

import { setTimeout as wait } from 'node:timers/promises'
import type { Random } from '../fuzz/random.ts'
import type { Proxy } from '../servers/process/proxy.ts'
import type { WriterProcess } from './process.ts'
import type { Site } from './site.ts'

export interface Fault {
  /** The place of the writer, for a fault of one writer. */
  readonly place?: number
  readonly detail: string
  /** Resolves when the fault has begun. */
  strike(): Promise<unknown>
  /** Resolves when the fault is over. */
  end(): Promise<unknown>
}

/** Latency to the store, at all times: so that there is usually a batch in flight. */
export const usualLatencyMs = 10

/** Removes all faults between writers and their dependencies. */
export async function calm(proxy: Proxy, latencyMs = 0): Promise<void> {
  await proxy.heal()
  proxy.latency(latencyMs)
}

export const faultKinds = {
  'worker ended'(site: Site, random: Random): Fault {
    const place = placeOf(site, random)
    const nth = random.below(8)
    return {
      place,
      detail: `writer ${place}`,
      async strike() {
        // After an earlier fault its workers may be about to start again.
        while (!(await writerIn(site, place).endWorker(nth))) await wait(20)
      },
      end: nothing,
    }
  },

  'writer killed'(site: Site, random: Random): Fault {
    const place = placeOf(site, random)
    const waitMs = random.below(1000)
    return {
      place,
      detail: `writer ${place}, away for ${waitMs} ms`,
      strike: () => site.stop(place, 'SIGKILL'),
      async end() {
        await wait(waitMs)
        await site.start(place)
      },
    }
  },

  'broker killed'({ kafka }: Site, random: Random): Fault {
    const waitMs = random.below(1000)
    return {
      detail: `away for ${waitMs} ms`,
      strike: () => kafka.kill(),
      async end() {
        await wait(waitMs)
        await kafka.restart()
      },
    }
  },

  'store crashed'({ store }: Site, random: Random): Fault {
    const waitMs = random.below(1500)
    return {
      detail: `away for ${waitMs} ms`,
      strike: () => store.kill(),
      async end() {
        await wait(waitMs)
        await store.restart()
      },
    }
  },

  'store cut': ({ store }: Site, random: Random): Fault => cut(store.proxy, random, usualLatencyMs),
  'store delayed': ({ store }: Site, random: Random): Fault => delay(store.proxy, random, usualLatencyMs),
  'store half-open': ({ store }: Site, random: Random): Fault => halfOpen(store.proxy, random, usualLatencyMs),
  'log cut': ({ kafka }: Site, random: Random): Fault => cut(kafka.proxy, random),
  'log delayed': ({ kafka }: Site, random: Random): Fault => delay(kafka.proxy, random),
  'log half-open': ({ kafka }: Site, random: Random): Fault => halfOpen(kafka.proxy, random),
} satisfies Record<string, (site: Site, random: Random) => Fault>

export type FaultKind = keyof typeof faultKinds
export const faultNames = Object.keys(faultKinds) as FaultKind[]

function cut(proxy: Proxy, random: Random, latencyMs = 0): Fault {
  const bytes = 1 + random.mostlySmall(200_000)
  return {
    detail: `after ${bytes} bytes more`,
    strike: () => proxy.cutAfter(bytes),
    end: () => calm(proxy, latencyMs),
  }
}

function delay(proxy: Proxy, random: Random, latencyMs = 0): Fault {
  const [ms, forMs] = [50 + random.below(450), 500 + random.below(1500)]
  return {
    detail: `by ${ms} ms for ${forMs} ms`,
    async strike() {
      proxy.latency(ms)
    },
    async end() {
      await wait(forMs)
      await calm(proxy, latencyMs)
    },
  }
}

function halfOpen(proxy: Proxy, random: Random, latencyMs = 0): Fault {
  const forMs = 200 + random.below(2500)
  return {
    detail: `${proxy.connections} connections, new ones for ${forMs} ms too`,
    async strike() {
      proxy.halfOpen()
    },
    async end() {
      await wait(forMs)
      await calm(proxy, latencyMs)
    },
  }
}

function placeOf({ writers }: Site, random: Random): number {
  const working = writers.flatMap((writer, place) => (writer === undefined ? [] : [place]))
  return random.pick(working)
}

function writerIn({ writers, unexpected }: Site, place: number): WriterProcess {
  const writer = writers[place]
  if (writer === undefined) throw new Error(`the writer whose worker was to end has ended: ${unexpected.join()}`)
  return writer
}

async function nothing(): Promise<void> {
  // It ended by itself.
}
