// Faults of options, all reported together, each with its place.

/** One fault: its place (`sluice.toml:12`, `SVC_HTTP_PORT`, `--port`), and what is wrong and what is allowed. */
export interface OptionFault {
  readonly place: string
  readonly problem: string
}

/** Runs a check, and records the message of an error that it throws as a fault of `place`. */
export function noteFault(faults: OptionFault[], place: string, check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof Error)) throw error
    faults.push({ place, problem: error.message })
  }
}

/** The options are invalid. The message is for people: one fault per line. */
export class OptionsError extends Error {
  override readonly name = 'OptionsError'
  readonly faults: readonly OptionFault[]

  constructor(faults: readonly OptionFault[]) {
    const count = faults.length === 1 ? 'the options have a fault' : `the options have ${faults.length} faults`
    super(`${count}:\n${faults.map(({ place, problem }) => `  ${place}: ${problem}`).join('\n')}`)
    this.faults = faults
  }
}

/**
 * Returns what `load` returns. Faults found earlier and the faults of `load` are thrown together.
 *
 * @throws OptionsError
 */
export function withFaults<Loaded>(faults: readonly OptionFault[], load: () => Loaded): Loaded {
  let loaded: Loaded
  try {
    loaded = load()
  } catch (error) {
    throw error instanceof OptionsError ? new OptionsError([...faults, ...error.faults]) : error
  }
  if (faults.length > 0) throw new OptionsError(faults)
  return loaded
}
