// `npm run demo`: twenty seconds that show what the platform promises, and a verdict. Exit code 0: all of it holds; 1: something does not, or an error.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { ask, signIn } from './demo/ask.ts'
import { openOwnPlatform } from './demo/own-platform.ts'
import { openScreen } from './demo/screen.ts'
import { show } from './demo/show.ts'
import { ToolError } from './streams.ts'

const usage = `Usage: npm run demo -- [--seconds 16] [--url http://127.0.0.1:8080]

Starts a platform in a temporary folder. Simulated devices publish, one message cannot be decoded, the platform gets a
kill -9 under load and is started again; then ./sluice verify compares the store with the log, and the folder is removed.

  --seconds  how long the devices publish, 2 to 600 (16)
  --url      uses this running platform instead: nothing is killed there, and every message can be decoded.
             It leaves there a user demo-…@sluice.example with a channel, 40 things and their messages.
             Where only an administrator creates users, SVC_ADMIN_EMAIL and SVC_ADMIN_PASSWORD_FILE say who that is.

Examples:
  npm run demo
  npm run demo -- --url http://127.0.0.1:8080 --seconds 60`

/** A new user on a running platform. */
async function register(url: string): Promise<{ authorization: string }> {
  const user = { email: `demo-${randomBytes(4).toString('hex')}@sluice.example`, password: randomBytes(12).toString('base64url') }
  const { SVC_ADMIN_EMAIL: email = '', SVC_ADMIN_PASSWORD_FILE: file } = process.env
  try {
    await ask(url, '/users', file === undefined ? {} : await signIn(url, email, readFileSync(file, 'utf8').trim()), user)
    return await signIn(url, user.email, user.password)
  } catch (error) {
    if (error instanceof ToolError) throw error
    throw new ToolError(`no platform answers at ${url}: start it with \`npm start\`, or leave out --url`, { cause: error })
  }
}

async function demo(url: string | undefined, seconds: number): Promise<boolean> {
  if (!(seconds >= 2 && seconds <= 600)) throw new ToolError('--seconds takes a number from 2 to 600')
  if (url !== undefined && !/^https?:\/\/./.test(url)) throw new ToolError('--url takes an address such as http://127.0.0.1:8080')
  const screen = openScreen(process.stdout)
  if (url !== undefined) return show(url, await register(url), undefined, seconds, screen)
  screen.say('starting a platform in a temporary folder')
  const own = openOwnPlatform()
  await own.start()
  return show(own.url, await own.signIn(), own, seconds, screen)
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1))
try {
  const options = { url: { type: 'string' }, seconds: { type: 'string', default: '16' }, help: { type: 'boolean', short: 'h' } } as const
  const { values } = parseArgs({ options })
  if (values.help === true) console.log(usage)
  else process.exit((await demo(values.url?.replace(/\/$/, ''), Number(values.seconds))) ? 0 : 1)
} catch (error) {
  const { code = '', message } = error as NodeJS.ErrnoException
  if (!(error instanceof ToolError || code.startsWith('ERR_PARSE_ARGS'))) throw error
  console.error(message)
  process.exit(1)
}
