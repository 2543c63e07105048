// The command `sluice`: picks a role, reads its options, nothing else.

import { readFileSync } from 'node:fs'
import { Command, Option } from 'commander'
import type { OptionSources } from './config/options.ts'
import type { upOptions } from './up.ts'

type UpSchema = typeof upOptions

const { version, description } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')) as Record<string, string>

const program = new Command('sluice')
  .description(description!)
  .version(version!)
  .showSuggestionAfterError()
  .showHelpAfterError('(sluice --help shows the commands, sluice <command> --help its options)')

const data = new Option('--data <folder>', 'where everything is kept (default: ./data)')
const file = new Option('--config <file>', 'options from a TOML file (default: none)')

program
  .command('up')
  .summary('everything in one process, on embedded defaults')
  .description('Starts the whole platform in one process on one port, with everything it keeps in one folder.')
  .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
  .option('--port <number>', 'port to listen on; 0 picks one (default: 8080)')
  .addOption(data)
  .addOption(file)
  .addHelpText(
    'after',
    '\nExamples:\n  sluice up\n  sluice up --port 0 --data /var/lib/sluice\n  SVC_ADMIN_EMAIL=me@example.com SVC_ADMIN_PASSWORD=… sluice up\n',
  )
  .action(async (flags: { host?: string; port?: string; data?: string; config?: string }) => {
    const { up, upOptions } = await import('./up.ts')
    const { loadOptions } = await import('./config/options.ts')
    const overrides = { http: { host: flags.host, port: flags.port }, data: { folder: flags.data } }
    await up(loadOptions(upOptions, sources(flags.config, overrides)), version!)
    process.exit(0) // everything is closed: see the end of this file
  })

function sources(file: string | undefined, overrides: OptionSources['overrides'] = {}): OptionSources {
  return { environment: process.env, overrides, ...(file === undefined ? {} : { file }) }
}

const config = program
  .command('config')
  .summary('check, print or sample the options of a role')
  .description('Works on the options of a role.')
const role = '<role>'

config
  .command('check')
  .argument(role, 'up')
  .addOption(file)
  .description('Says ok, or every fault of the options at once.')
  .addHelpText('after', '\nExample:\n  sluice config check up --config sluice.toml\n')
  .action(async (name: string, flags: { config?: string }) => {
    const { loadOptions } = await import('./config/options.ts')
    loadOptions(await schemaOf(name), sources(flags.config))
    console.log('ok')
  })

config
  .command('print')
  .argument(role, 'up')
  .addOption(file)
  .description('Prints the options in force; secrets are masked.')
  .addHelpText('after', '\nExample:\n  SVC_HTTP_PORT=9000 sluice config print up\n')
  .action(async (name: string, flags: { config?: string }) => {
    const { loadOptions, printOptions } = await import('./config/options.ts')
    const schema = await schemaOf(name)
    console.log(printOptions(schema, loadOptions(schema, sources(flags.config))))
  })

config
  .command('sample')
  .argument(role, 'up')
  .description('Prints a commented TOML file with every option at its default.')
  .addHelpText('after', '\nExample:\n  sluice config sample up > sluice.toml\n')
  .action(async (name: string) => {
    const { sampleFile } = await import('./config/options.ts')
    console.log(sampleFile(await schemaOf(name)))
  })

async function schemaOf(name: string): Promise<UpSchema> {
  if (name !== 'up') program.error(`there is no role ${JSON.stringify(name)}: the roles are up`)
  return (await import('./up.ts')).upOptions
}

/** Faults that a person can mend: their message says how. Anything else is a defect, and its stack says where. */
const operatorErrors: ReadonlySet<string> = new Set([
  'OptionsError',
  'DataFolderInUseError',
  'DataFolderError',
  'SecretError',
  'DamagedDatabaseError',
  'DatabaseStartError',
  'NewerSchemaError',
  'ControlPlaneStartError',
  'SinkError',
  'SystemicError',
  'ListenError',
])

function isForOperator(error: unknown): error is Error {
  return error instanceof Error && operatorErrors.has(error.name)
}

try {
  await program.parseAsync()
} catch (error) {
  console.error(isForOperator(error) ? error.message : error)
  // Not left to the event loop: a damaged embedded database leaves timers behind that nothing can stop.
  process.exit(1)
}
