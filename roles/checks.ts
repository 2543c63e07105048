// What a role needs to start, as checks that change nothing: a start waits until each passes, and `./sluice doctor` runs each once.

import { constants } from 'node:fs'
import { access, statfs } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { DataFolderError } from '../config/data-folder.ts'
import type { Logger } from '../config/logger.ts'
import { openWhenThere, type Waiting } from '../config/run-process.ts'
import { closeServer, type ListenAdvice, ListenError, listen } from '../http/listen.ts'
import { type ListenAddress, parseListenAddress } from '../http/listen-address.ts'
import type { HttpOptions } from '../http/options.ts'
import { createServer } from '../http/server.ts'
import { readServerTls, type TlsFiles } from '../http/tls-files.ts'

export type Warn = (sentence: string) => void

export interface Check {
  /** As in the metric `dependency_outage`: `log`, `store`; or `addresses`. */
  readonly name: string
  /**
   * Asks, and changes nothing.
   *
   * @param warn gets what does not stop a start, with what to do
   * @returns what was found: `the topic messages has 12 partitions`
   * @throws what ends a start, and what it waits for
   */
  readonly run: (warn: Warn) => Promise<string>
}

/** A check of a server, which may be away. */
export interface ServerCheck extends Check {
  /** What it asks: `PostgreSQL`. */
  readonly subject: string
  /** What to correct if that cannot be reached: `store.url (SVC_RELATIONAL_URL)`. */
  readonly options: string
  /** Whether a start waits after this error. */
  readonly isAway: (error: unknown) => boolean
}

/**
 * Resolves once the check passes, or the signal aborts.
 *
 * @throws an error that waiting cannot fix
 */
export async function passCheck(
  { run, isAway }: ServerCheck,
  { logger, ...waiting }: Pick<Waiting<unknown>, 'outage' | 'signal'> & { readonly logger: Logger },
): Promise<void> {
  await openWhenThere({ open: () => run(sentence => logger.warn(sentence)), isAway, ...waiting })
}

/** The sections of a role that listens. */
interface ListeningOptions {
  readonly http: HttpOptions
  readonly internal?: TlsFiles & { readonly listen: string }
  readonly mqtt?: TlsFiles & ListenAddress & { readonly enabled: boolean }
}

/** That the role can listen where its options say, with the certificates there. It listens for a moment. */
export function addressesCheck({ http, internal, mqtt }: ListeningOptions, logger: Logger): Check {
  const adviceOf = (variable: string, more = ''): ListenAdvice => ({ host: variable, port: variable + more })
  const listeners: (TlsFiles & ListenAddress & { readonly section: string; readonly advice?: ListenAdvice })[] = [
    { section: 'http', ...http },
    ...(internal === undefined
      ? []
      : [{ section: 'internal', ...internal, ...parseListenAddress(internal.listen), advice: adviceOf('SVC_INTERNAL_LISTEN') }]),
    ...(mqtt?.enabled === true ? [{ section: 'mqtt', ...mqtt, advice: adviceOf('SVC_MQTT_PORT', ', or SVC_MQTT_ENABLED=false') }] : []),
  ]
  return {
    name: 'addresses',
    async run(warn) {
      const opened: string[] = []
      for (const { section, host, port, advice, ...files } of listeners) {
        await readServerTls(section, files)
        const server = createServer({ logger, host })
        try {
          opened.push(new URL(await listen(server, { host, port }, advice)).host)
        } catch (error) {
          if (!(error instanceof ListenError) || (error.cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
          warn(`${error.message}; nothing is wrong if that process is this role`)
        } finally {
          await closeServer(server, 0)
        }
      }
      return opened.join(', ')
    },
  }
}

const freeBytesMin = 1024 ** 3

/** That the data folder of `up` can be written, or created, and has free space. */
export function folderCheck(folder: string): Check {
  return {
    name: 'folder',
    async run(warn) {
      const path = resolve(folder)
      const existing = await nearest(path)
      await access(existing, constants.W_OK).catch((cause: unknown) => {
        const what = existing === path ? 'is not writable' : `cannot be created: ${existing} is not writable`
        throw new DataFolderError(`the data folder ${path} ${what} for this user: use another one with --data`, { cause })
      })
      const { bavail, bsize } = await statfs(existing)
      const free = bavail * bsize
      if (free < freeBytesMin)
        warn(`${path} has ${Math.floor(free / 2 ** 20)} MiB of free space: a full disk stops publishing, so free some`)
      return `${path} has ${(free / freeBytesMin).toFixed(1)} GiB of free space`
    },
  }
}

/** The folder, or the first one above it that exists. */
async function nearest(path: string): Promise<string> {
  const exists = await access(path).then(
    () => true,
    () => false,
  )
  return exists || dirname(path) === path ? path : nearest(dirname(path))
}
