// What the console has in `up`, besides the API: the overview, arrivals, and the sign-in with a code.

import type { Logger } from '../config/logger.ts'
import type { AccessControl } from '../control-plane/client.ts'
import type { HttpServer } from '../http/server.ts'
import type { Administration } from '../pipeline/administration.ts'
import { openDeadLetterCounts } from '../pipeline/dead-letters/counts.ts'
import type { ArrivalListener } from '../pipeline/ingest/arrivals.ts'
import type { TopicReader } from '../pipeline/topic-reader.ts'
import type { Decoder } from '../pipeline/writer/decode.ts'
import type { WriterState } from '../pipeline/writer/writer.ts'
import type { StoreAudit } from '../sinks/audit.ts'
import { openArrivals, type Viewers } from './arrivals.ts'
import { type DemoParts, demoRoutes } from './demo.ts'
import { type Dependency, overviewRoute } from './overview.ts'
import { type ConsoleSignIn, type ConsoleSignInParts, openConsoleSignIn } from './sign-in.ts'

export interface UpConsoleParts extends Administration, ConsoleSignInParts {
  /** The embedded logs, with one partition each. */
  readonly log: TopicReader
  readonly deadLetters: TopicReader
  readonly onDeadLetters: (listener: () => void) => () => void
  readonly audit: Pick<StoreAudit, 'logs'>
  /** The log's number in the store. */
  readonly logNumber: () => number
  readonly dependencies: () => Promise<readonly Dependency[]>
  readonly writer: () => WriterState
  /** The writer's. */
  readonly decoder: Decoder
  readonly viewers: Viewers
  readonly access: Pick<AccessControl, 'onChange'>
  /** Only with `--demo`. */
  readonly demo: Pick<DemoParts, 'writer' | 'store'> | undefined
  readonly logger: Logger
}

export interface UpConsole {
  readonly routes: (app: HttpServer) => Promise<void>
  readonly offer: ConsoleSignIn['offer']
  /** For ingest. */
  readonly arrivals: ArrivalListener
  /** Everything below this offset of the log is stored or dead-lettered. */
  settled(offset: number): void
}

/** Paths by name, for the home page: the console's views use their presence to know what there is. */
export function upConsoleLinks({ hasDemo }: { hasDemo: boolean }): Record<string, string> {
  return {
    overview: '/console/overview/stream',
    arrivals: '/console/things/{thing}/arrivals/stream',
    ...(hasDemo ? { demo: '/console/demo' } : {}),
  }
}

export function openUpConsole(parts: UpConsoleParts): UpConsole {
  const { log, deadLetters, audit, logNumber, demo } = parts
  const signIn = openConsoleSignIn(parts)
  const arrivals = openArrivals(parts)
  return {
    async routes(app) {
      await app.register(signIn.routes)
      await app.register(arrivals.routes)
      if (demo !== undefined) await app.register(demoRoutes({ ...parts, ...demo }))
      const counts = async () => (await audit.logs()).find(({ number }) => number === logNumber())?.partitions.get(0)
      await app.register(overviewRoute({ ...parts, counts, deadLetters: openDeadLetterCounts(deadLetters, log.id) }))
    },
    offer: email => signIn.offer(email),
    arrivals,
    settled: offset => arrivals.settled(offset),
  }
}
