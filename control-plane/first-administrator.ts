// The administrator of a fresh installation: with the operator's password, or with one made here and left in a file.

import { createSecretFile, generatePassword, readSecretFile } from '../config/secrets.ts'
import type { ControlPlane } from './index.ts'

export interface FirstAdministrator {
  readonly email: string
  /** undefined where the operator gave the password. */
  readonly generated: { readonly password: string; readonly path: string } | undefined
}

/**
 * Registers the administrator where there is none.
 *
 * @param path of the file (mode 0600) that a generated password is written to
 * @returns undefined where there is one already
 * @throws ControlPlaneStartError for an email or a password that cannot be taken
 */
export async function makeFirstAdministrator(
  controlPlane: ControlPlane,
  { email, password }: { readonly email: string; readonly password?: string },
  path: string,
): Promise<FirstAdministrator | undefined> {
  if (await controlPlane.hasAdministrator()) return undefined
  if (password !== undefined) {
    await controlPlane.ensureAdministrator({ email, password })
    return { email, generated: undefined }
  }
  // The file comes first: a start that dies between the two leaves a password that the next one uses.
  await createSecretFile(path, generatePassword())
  const generated = (await readSecretFile(path))?.trim()
  if (generated === undefined) throw new Error(`${path} was made and is gone again: nothing else may write in this folder`)
  await controlPlane.ensureAdministrator({ email, password: generated })
  return { email, generated: { password: generated, path } }
}
