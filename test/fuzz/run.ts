// `npm run fuzz`: decodes hostile input with the transformers until a failure or a time limit.

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { fuzz } from './fuzzer.ts'
import { kinds, kindsNamed } from './kinds.ts'
import { failureText, progressLine, runText } from './report.ts'
import { endlessSecondsDefault, openWatchdog } from './watchdog.ts'

const secondsDefault = 60

const usage = `Usage: npm run fuzz [-- options]

Gives hostile input to the transformers, and holds what they promise against what they do. Ends with exit code 1 and the input
when something fails, with 0 when nothing does.

  --seed N      the run's seed: the same one makes the same inputs   (FUZZ_SEED, or a random one, which is printed)
  --seconds N   how long                                             (${secondsDefault}, where there is no --cases)
  --cases N     how many inputs
  --kind NAME   only the kinds whose names hold this: json, senml-cbor-lengths
  --case N      only this input of each kind, by its number
  --endless-seconds N   an input that takes longer counts as one that never ends   (${endlessSecondsDefault})
  --kinds       lists the kinds
`

class Misuse extends Error {}

interface Options {
  readonly seed: number
  readonly kind: string
  readonly casesMax: number
  readonly elapsedMsMax: number
  readonly ordinal: number | undefined
  readonly endlessSeconds: number
}

function wholeNumber(text: string | undefined, flag: string): number | undefined {
  if (text === undefined) return undefined
  const number = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(number)) return number
  throw new Misuse(`${flag} takes a whole number, and got ${JSON.stringify(text)}`)
}

function readOptions(): Options | string {
  const string = { type: 'string' } as const
  const { values } = parseArgs({
    options: {
      seed: string,
      seconds: string,
      cases: string,
      kind: string,
      case: string,
      'endless-seconds': string,
      kinds: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help === true) return usage
  if (values.kinds === true) return kinds.map(({ name }) => `${name}\n`).join('')
  const casesMax = wholeNumber(values.cases, '--cases')
  const seconds = wholeNumber(values.seconds, '--seconds') ?? (casesMax === undefined ? secondsDefault : undefined)
  return {
    seed: wholeNumber(values.seed, '--seed') ?? wholeNumber(process.env['FUZZ_SEED'], 'FUZZ_SEED') ?? randomInt(2 ** 31),
    kind: values.kind ?? '',
    casesMax: casesMax ?? Number.POSITIVE_INFINITY,
    elapsedMsMax: seconds === undefined ? Number.POSITIVE_INFINITY : seconds * 1000,
    ordinal: wholeNumber(values.case, '--case'),
    endlessSeconds: wholeNumber(values['endless-seconds'], '--endless-seconds') ?? endlessSecondsDefault,
  }
}

async function main(): Promise<number> {
  const options = readOptions()
  if (typeof options === 'string') {
    process.stdout.write(options)
    return 0
  }
  const { seed, kind, casesMax, elapsedMsMax, ordinal, endlessSeconds } = options
  // One kind's name may be the start of another's.
  const chosen = kinds.some(({ name }) => name === kind) ? kinds.filter(({ name }) => name === kind) : kindsNamed(kind)
  if (chosen.length === 0) throw new Misuse(`no kind has ${JSON.stringify(kind)} in its name: --kinds lists them`)
  console.log(`seed ${seed}`)
  const isTerminal = process.stderr.isTTY
  const watchdog = openWatchdog(seed, endlessSeconds)
  const run = fuzz({
    seed,
    kinds: chosen,
    casesMax,
    elapsedMsMax,
    onCase: watchdog.begin,
    ...(ordinal === undefined ? {} : { ordinal }),
    ...(isTerminal
      ? {
          onProgress: progress => {
            const share = Math.max(progress.cases / casesMax, progress.elapsedMs / elapsedMsMax)
            process.stderr.write(`\r${progressLine(progress, share)}\x1b[K`)
          },
        }
      : {}),
  })
  await watchdog.close()
  if (isTerminal) process.stderr.write('\r\x1b[K')
  console.log(runText(run, seed))
  if (run.failure === undefined) return 0
  console.error(failureText(run.failure))
  return 1
}

try {
  process.exitCode = await main()
} catch (error) {
  const misuse = error instanceof Misuse || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
  console.error(misuse ? `${(error as Error).message}\n\n${usage}` : error)
  process.exitCode = misuse ? 2 : 1
}
