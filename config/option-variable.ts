// The variable of an option, and how sentences name both, so that a person finds the option in a file and in the environment.

/** By the rule that most options follow: `store.ca_file` is `SVC_STORE_CA_FILE`. */
export function variableOf(option: string): string {
  return `SVC_${option.replaceAll('.', '_').toUpperCase()}`
}

/** `store.ca_file (SVC_STORE_CA_FILE)`. */
export function named(option: string, variable: string = variableOf(option)): string {
  return `${option} (${variable})`
}
