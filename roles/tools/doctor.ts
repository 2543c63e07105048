// `./sluice doctor`: checks what a role needs to start, and says what to do. The checks are those of the start itself.

import type { Command } from 'commander'
import type { TObject } from 'typebox'
import { ToolError, writeOutput } from '../../bin/streams.ts'
import { createLogger } from '../../config/logger.ts'
import type { OptionSources } from '../../config/options/options.ts'
import { factOf, openOutage } from '../../config/outage.ts'
import { openCleanup, type ProcessScope } from '../../config/run-process.ts'
import { addressesCheck, type Check, folderCheck, type ServerCheck } from '../checks.ts'
import { configPathVariable, type StoreName, storeNamesText } from '../stores/store.ts'
import { answered, answering } from './failure.ts'
import { type Sources, storeNamed } from './target/flags.ts'
import { jsonLine, plain } from './text.ts'

/** Adds `./sluice doctor`. */
export function addCommands(command: Command, sources: Sources): void {
  answering(command)
    .argument('<role>', Object.keys(lists).join(', '))
    .argument('[store]', `store of a writer or reader: ${storeNamesText}`)
    .option('--config <file>', 'TOML file with the options of the role (default: none, or the path in SVC_<STORE>_<ROLE>_CONFIG_PATH)')
    .option('--json', 'print one JSON object per line')
    .description(
      'Checks what a role needs to start: options, addresses, certificates, servers, rights. Changes nothing, and may run beside the role.',
    )
    .addHelpText(
      'after',
      `
Of each check: ok; warn, which stops no start; away, for which a start waits; fault, which ends it. It ends with 0 if there are only the first
two, with 1 otherwise, and with 2 if nothing could be checked.

Examples:
  SVC_LOG_BROKERS=kafka:9092 SVC_RELATIONAL_URL=postgres://… ./sluice doctor writer relational
  ./sluice doctor ingest --config ingest.toml
  ./sluice doctor api --json | jq -r 'select(.status != "ok") | .detail'
`,
    )
    .action(async (role: string, store: string | undefined, { config, json = false }: { config?: string; json?: boolean }) => {
      await answered(() => examine(role, store, { config, sources, print: found => writeOutput(json ? jsonLine(found) : lineOf(found)) }))
      // A check that was too slow still waits for its answer.
      process.exit()
    })
}

interface Found {
  readonly check: string
  readonly status: 'ok' | 'warn' | 'away' | 'fault'
  /** What was found, or what is wrong and what to do. */
  readonly detail: string
}

const lineOf = ({ check, status, detail }: Found): string => `${status.padEnd(5)}  ${check.padEnd(13)}  ${plain(detail)}\n`

interface Examination {
  readonly config: string | undefined
  readonly sources: Sources
  readonly print: (found: Found) => Promise<void>
}

/** Longer than a start waits for one answer. */
const checkMsMax = 20_000

type AnyCheck = Check | ServerCheck

/** @returns whether the role could start now */
async function examine(role: string, storeName: string | undefined, { config, sources, print }: Examination): Promise<boolean> {
  const list = Object.hasOwn(lists, role) ? lists[role] : undefined
  if (list === undefined) throw new ToolError(`unknown role ${JSON.stringify(role)}: the roles are ${Object.keys(lists).join(', ')}`)
  const logger = createLogger({ level: 'silent', pretty: false })
  const cleanup = openCleanup(logger)
  try {
    const load: Parts['load'] = (schema, fileVariable = '') => sources(schema, config, {}, fileVariable)
    let checks: readonly AnyCheck[]
    try {
      checks = await list({ load, store: () => storeNamed(storeName ?? ''), logger, closeLater: close => cleanup.add(close) })
    } catch (error) {
      if (!(error instanceof Error) || !['OptionsError', 'SecretError'].includes(error.name)) throw error
      await print({ check: 'options', status: 'fault', detail: error.message })
      return false
    }
    await print({ check: 'options', status: 'ok', detail: 'they have no faults' })
    let isWell = true
    for (const check of checks) {
      const found = await resultsOf(check)
      for (const one of found) await print(one)
      isWell &&= found.every(({ status }) => status === 'ok' || status === 'warn')
    }
    return isWell
  } finally {
    await cleanup.close()
  }
}

async function resultsOf(check: AnyCheck): Promise<Found[]> {
  const { name, run } = check
  const found: Found[] = []
  const slow = Promise.withResolvers<never>()
  const late = new Error(`no answer within ${checkMsMax / 1000} s`)
  const timer = setTimeout(() => slow.reject(late), checkMsMax)
  try {
    const detail = await Promise.race([run(sentence => void found.push({ check: name, status: 'warn', detail: sentence })), slow.promise])
    if (detail !== '') found.unshift({ check: name, status: 'ok', detail })
  } catch (error) {
    if ('isAway' in check && (error === late || check.isAway(error))) {
      const detail = `${check.subject} is away (${factOf(error)}): start it, or correct ${check.options}`
      found.push({ check: name, status: 'away', detail })
    } else found.push({ check: name, status: 'fault', detail: factOf(error) })
  } finally {
    clearTimeout(timer)
  }
  return found
}

interface Parts extends Pick<ProcessScope, 'closeLater'> {
  readonly load: (schema: TObject, fileVariable?: string) => Promise<OptionSources>
  readonly store: () => StoreName
  readonly logger: ReturnType<typeof createLogger>
}

/** The checks of each role, once its options are loaded. @throws OptionsError, SecretError */
const lists: Readonly<Record<string, (parts: Parts) => Promise<readonly AnyCheck[]>>> = {
  async up({ load, logger }) {
    const { loadUpOptions, upOptions } = await import('../../up-options.ts')
    const options = loadUpOptions(await load(upOptions))
    return [addressesCheck(options, logger), folderCheck(options.data.folder)]
  },
  async api({ load, logger, closeLater }) {
    const { apiOptions, loadApiOptions } = await import('../api/options.ts')
    const { openApiDatabase } = await import('../api/api.ts')
    const options = loadApiOptions(await load(apiOptions))
    const { check } = await openApiDatabase(options, logger, closeLater)
    return [addressesCheck(options, logger), check]
  },
  async ingest({ load, logger, closeLater }) {
    const { ingestRoleOptions, loadIngestOptions } = await import('../ingest/options.ts')
    const { openRoleAccess } = await import('../remote-access.ts')
    const { appendCheck } = await import('../kafka-check.ts')
    const options = loadIngestOptions(await load(ingestRoleOptions))
    const { startCheck } = await openRoleAccess(options.control, unheard(logger), closeLater)
    return [addressesCheck(options, logger), startCheck, appendCheck(options.log)]
  },
  async bridge({ load, logger }) {
    const { bridgeOptions, loadBridgeOptions } = await import('../bridge/options.ts')
    const { appendCheck } = await import('../kafka-check.ts')
    const options = loadBridgeOptions(await load(bridgeOptions))
    return [addressesCheck(options, logger), appendCheck(options.log)]
  },
  async writer({ load, store, logger }) {
    const { loadWriterOptions, writerOptionsOf } = await import('../writer/options.ts')
    const { storeOptions } = await import('../stores/options.ts')
    const { storeKind } = await import('../stores/index.ts')
    const { writerChecks } = await import('../writer/checks.ts')
    const known = await storeOptions(store())
    const options = loadWriterOptions(known, await load(writerOptionsOf(known), configPathVariable('writer', known.name)))
    return [addressesCheck(options, logger), ...(await writerChecks(await storeKind(known.name), options))]
  },
  async reader({ load, store, logger, closeLater }) {
    const { loadReaderOptions, readerOptionsOf } = await import('../reader/options.ts')
    const { storeOptions } = await import('../stores/options.ts')
    const { storeKind } = await import('../stores/index.ts')
    const { openReaderParts } = await import('../reader/reader.ts')
    const known = await storeOptions(store())
    const options = loadReaderOptions(known, await load(readerOptionsOf(known), configPathVariable('reader', known.name)))
    const { checks } = await openReaderParts(await storeKind(known.name), options, unheard(logger), closeLater)
    return [addressesCheck(options, logger), ...checks]
  },
}

/** The checks themselves say what is away. */
const unheard = (logger: Parts['logger']) => openOutage({ logger, dependency: 'control_plane', name: 'the control plane' })()
