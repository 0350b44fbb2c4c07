package bench;

/** What is measured. `run` is timed; its result is kept from the optimizer by the caller. */
interface Job {
    Object run() throws Exception;

    /** A digest of the result, by which all contestants are compared. */
    String check() throws Exception;
}
