// The administrator of a fresh installation: with the operator's password, or with a generated one that is written to a file.

import { createSecretFile, generatePassword, readSecretFile } from '../config/secrets.ts'
import type { ControlPlane } from './index.ts'

export interface FirstAdministrator {
  readonly email: string
  /** undefined if the operator gave the password. */
  readonly generated: { readonly password: string; readonly path: string } | undefined
}

/**
 * Registers the administrator if there is none.
 *
 * @param path of the file (mode 0600) that a generated password is written to
 * @returns undefined if there is one already
 * @throws ControlPlaneStartError for an email or a password that is not allowed
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
  // The file is written first: if the process dies between the two, the next start uses the password in the file.
  await createSecretFile(path, generatePassword())
  const generated = (await readSecretFile(path))?.trim()
  if (generated === undefined) throw new Error(`${path} disappeared right after it was created: nothing else may write to this folder`)
  await controlPlane.ensureAdministrator({ email, password: generated })
  return { email, generated: { password: generated, path } }
}
