// What is wrong with options: every fault at once, each with its place.

/** One fault: where it was found (`sluice.toml:12`, `SVC_HTTP_PORT`, `--port`), and what is wrong and allowed there. */
export interface OptionFault {
  readonly place: string
  readonly problem: string
}

/** Runs a check that throws where something is wrong, and keeps what it says as the fault of a place. */
export function noteFault(faults: OptionFault[], place: string, check: () => void): void {
  try {
    check()
  } catch (error) {
    if (!(error instanceof Error)) throw error
    faults.push({ place, problem: error.message })
  }
}

/** The options cannot be used. The message is for a person: every fault on its own line. */
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
 * What `load` returns. Its faults come with those that were found before, and either stop it.
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
