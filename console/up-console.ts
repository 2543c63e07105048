// What the console has in `up`, besides the API: the overview, arrivals, and the sign-in with a code.

import type { HttpServer } from '../http/server.ts'
import { openDeadLetterIndex } from '../pipeline/dead-letters/state-index.ts'
import type { StoreAudit } from '../sinks/audit.ts'
import { type ArrivalsParts, openArrivals } from './arrivals.ts'
import { type DemoParts, demoRoutes } from './demo.ts'
import { type OverviewParts, overviewRoute } from './overview.ts'
import { type ConsoleSignInParts, openConsoleSignIn } from './sign-in.ts'

export interface UpConsoleParts extends Omit<OverviewParts, 'counts' | 'deadLetters'>, ArrivalsParts, ConsoleSignInParts {
  readonly audit: Pick<StoreAudit, 'logs'>
  /** Only with `--demo`. */
  readonly demo: Pick<DemoParts, 'writer' | 'store'> | undefined
}

/** Paths by name, for the home page: the console's views use their presence to know what there is. */
export function upConsoleLinks({ hasDemo }: { hasDemo: boolean }): Record<string, string> {
  return {
    overview: '/console/overview/stream',
    arrivals: '/console/things/{thing}/arrivals/stream',
    ...(hasDemo ? { demo: '/console/demo' } : {}),
  }
}

export function openUpConsole(parts: UpConsoleParts) {
  const { log, deadLetters, audit, logNumber, demo } = parts
  const signIn = openConsoleSignIn(parts)
  const arrivals = openArrivals(parts)
  return {
    routes: async (app: HttpServer): Promise<void> => {
      await app.register(signIn.routes)
      await app.register(arrivals.routes)
      if (demo !== undefined) await app.register(demoRoutes({ ...parts, ...demo }))
      const counts = async () => (await audit.logs()).find(({ number }) => number === logNumber())?.partitions.get(0)
      const openDeadLetters = openDeadLetterIndex(deadLetters, log.id, { keepsResolved: false })
      await app.register(overviewRoute({ ...parts, counts, deadLetters: openDeadLetters }))
    },
    offer: (email: string) => signIn.offer(email),
    /** For ingest, and for the writer, which says what is settled. */
    arrivals,
  }
}
