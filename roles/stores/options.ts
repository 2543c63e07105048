// The options of each kind of store, and how they are checked before the start. They stand apart from how a store is opened, because
// worker threads open stores and load no schemas.

import { type TObject, Type } from 'typebox'
import type { OptionFault } from '../../config/options/faults.ts'
import { databaseUrlFaults, passwordOf } from '../../database/database-url.ts'
import type { RetentionOptions } from '../../sinks/erasure.ts'
import { loginFaults, retentionFaults } from '../../sinks/options.ts'
import type { StoreName } from './store.ts'

/** The section `store` of writers and readers of one kind. */
export interface StoreOptions {
  readonly name: StoreName
  /** Schema of the section of a writer. */
  readonly writer: TObject
  /** Schema of the section of a reader. */
  readonly reader: TObject
  /** Faults in combinations of valid options, and in URLs. */
  faults(options: unknown): OptionFault[]
  /** Secrets by option name, which must not be publicly known ones in production. */
  secrets(options: unknown): Readonly<Record<string, string | undefined>>
}

type Checks<Options> = { [Check in 'faults' | 'secrets']: (options: Options) => ReturnType<StoreOptions[Check]> }

/** The schemas decide what the checks get. */
function checked<Options>(schemas: Pick<StoreOptions, 'name' | 'writer' | 'reader'>, checks: Checks<Options>): StoreOptions {
  return { ...schemas, ...(checks as Checks<unknown>) }
}

async function relational(): Promise<StoreOptions> {
  const { sinkOptions } = await import('../../sinks/postgres/options.ts')
  const { readerStoreOptions } = await import('../../readers/postgres/options.ts')
  const url = Type.String({
    pattern: '^postgres(ql)?://.',
    secret: true,
    environment: 'SVC_RELATIONAL_URL',
    allowed: 'a URL such as postgres://user:password@host:5432/database',
    description: 'The PostgreSQL database that messages are stored in.',
  })
  const statementTimeoutMs = Type.Integer({
    default: 60_000,
    minimum: 1_000,
    maximum: 3_600_000,
    description: 'Milliseconds after which a statement is cancelled and repeated.',
  })
  return checked<RetentionOptions & { url: string }>(
    {
      name: 'relational',
      writer: Type.Object({ url, statementTimeoutMs, ...sinkOptions.properties }),
      reader: Type.Object({ url, ...readerStoreOptions.properties }),
    },
    {
      faults: ({ url, ...options }) => [...databaseUrlFaults('store.url', url), ...retentionFaults(options)],
      secrets: ({ url }) => ({ 'store.url': passwordOf(url) }),
    },
  )
}

async function widecolumn(): Promise<StoreOptions> {
  const { credentialsOf, secretsOf, sinkOptions, urlFaults } = await import('../../sinks/cassandra/options.ts')
  const { readerStoreOptions } = await import('../../readers/cassandra/options.ts')
  return checked<LoginAt>(
    { name: 'widecolumn', writer: sinkOptions, reader: readerStoreOptions },
    {
      faults: options => [
        ...atUrl(urlFaults(options.url)),
        ...loginFaults(options, credentialsOf(options.url), true),
        ...retentionFaults(options),
      ],
      secrets: secretsOf,
    },
  )
}

async function timeseries(): Promise<StoreOptions> {
  const { secretsOf, sinkOptions, urlFaults } = await import('../../sinks/influxdb/options.ts')
  const { readerStoreOptions } = await import('../../readers/influxdb/options.ts')
  return checked<RetentionOptions & { url: string; token: string }>(
    { name: 'timeseries', writer: sinkOptions, reader: readerStoreOptions },
    { faults: ({ url, ...options }) => [...atUrl(urlFaults(url)), ...retentionFaults(options)], secrets: secretsOf },
  )
}

async function document(): Promise<StoreOptions> {
  const { credentialsOf, secretsOf, sinkOptions, urlFaults } = await import('../../sinks/mongodb/options.ts')
  const { readerStoreOptions } = await import('../../readers/mongodb/options.ts')
  return checked<LoginAt>(
    { name: 'document', writer: sinkOptions, reader: readerStoreOptions },
    {
      faults: options => [
        ...atUrl(urlFaults(options.url)),
        ...loginFaults(options, credentialsOf(options.url), false),
        ...retentionFaults(options),
      ],
      secrets: secretsOf,
    },
  )
}

interface LoginAt extends RetentionOptions {
  readonly url: string
  readonly user?: string
  readonly password?: string
}

function atUrl(faults: readonly { problem: string }[]): OptionFault[] {
  return faults.map(({ problem }) => ({ place: 'store.url', problem }))
}

const kinds: Readonly<Record<StoreName, () => Promise<StoreOptions>>> = { relational, widecolumn, timeseries, document }

/** The options of a kind; the others are not loaded. */
export function storeOptions(name: StoreName): Promise<StoreOptions> {
  return kinds[name]()
}
