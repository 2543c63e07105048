// The variable of an option, and the form in which messages name both, so that users find the option in a file and in the environment.

/** The default rule: `store.ca_file` is `SVC_STORE_CA_FILE`. */
export function variableOf(option: string): string {
  return `SVC_${option.replaceAll('.', '_').toUpperCase()}`
}

/** `store.ca_file (SVC_STORE_CA_FILE)`. */
export function named(option: string, variable: string = variableOf(option)): string {
  return `${option} (${variable})`
}
