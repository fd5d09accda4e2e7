"""Problems and verifiable rewards."""
