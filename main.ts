// The command `sluice`: picks a role, reads its options, nothing else.

import { readFileSync } from 'node:fs'
import { Command, Option } from 'commander'
import type { OptionSources } from './config/options.ts'
import type { loadUpOptions, upOptions } from './up-options.ts'

/** A role's options: what they are, and how they are read and checked. */
interface Role {
  readonly schema: typeof upOptions
  readonly load: typeof loadUpOptions
}

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
  .option('--accept-new-log', 'go on with a log that was made anew, once')
  .addHelpText(
    'after',
    '\nExamples:\n  sluice up\n  sluice up --port 0 --data /var/lib/sluice\n  SVC_ADMIN_EMAIL=me@example.com SVC_ADMIN_PASSWORD=… sluice up\n',
  )
  .action(async (flags: { host?: string; port?: string; data?: string; config?: string; acceptNewLog?: boolean }) => {
    const { loadUpOptions } = await import('./up-options.ts')
    const overrides = { http: { host: flags.host, port: flags.port }, data: { folder: flags.data }, log: { acceptNew: flags.acceptNewLog } }
    const options = loadUpOptions(sources(flags.config, overrides))
    const { up } = await import('./up.ts')
    await up(options, version!)
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
  .addHelpText(
    'after',
    '\nExample:\n  sluice config check up --config sluice.toml\n  npm exec --no sluice -- config check up --config sluice.toml\n',
  )
  .action(async (name: string, flags: { config?: string }) => {
    const { load } = await roleOf(name)
    load(sources(flags.config))
    console.log('ok')
  })

config
  .command('print')
  .argument(role, 'up')
  .addOption(file)
  .description('Prints the options in force; secrets are masked.')
  .addHelpText('after', '\nExample:\n  SVC_HTTP_PORT=9000 sluice config print up\n')
  .action(async (name: string, flags: { config?: string }) => {
    const { printOptions } = await import('./config/options.ts')
    const { schema, load } = await roleOf(name)
    console.log(printOptions(schema, load(sources(flags.config))))
  })

config
  .command('sample')
  .argument(role, 'up')
  .description('Prints a commented TOML file with every option at its default.')
  .addHelpText('after', '\nExample:\n  sluice config sample up > sluice.toml\n')
  .action(async (name: string) => {
    const { sampleFile } = await import('./config/options.ts')
    console.log(sampleFile((await roleOf(name)).schema))
  })

/** Each adds its commands to the one it is given, and is loaded where that is asked for. */
const tools = {
  senml: { summary: 'resolve, validate and convert SenML packs', load: () => import('./bin/senml.ts') },
  json: { summary: 'see what becomes of JSON documents', load: () => import('./bin/json.ts') },
}
for (const [name, { summary, load }] of Object.entries(tools)) {
  const command = program.command(name).summary(summary)
  if (process.argv.includes(name)) (await load()).addCommands(command)
}

async function roleOf(name: string): Promise<Role> {
  if (name !== 'up') program.error(`there is no role ${JSON.stringify(name)}: the roles are up`)
  const { upOptions, loadUpOptions } = await import('./up-options.ts')
  return { schema: upOptions, load: loadUpOptions }
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
  'ToolError',
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
